"""The check before a stack is replaced: whether the new one is worse than allowed against the same reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from suite.compare.comparison import MUST_NOT, compare_entries, p_text, scope
from suite.compare.entries import Entry, require_one_cohort
from suite.errors import InvalidInput
from suite.score.paired import ALPHA, holm, sign_flip_test

Rule = Literal["confident", "leaning", "flips", "kl", "no-worse"]
SCHEMA_VERSION = 1

_QUANTITIES: dict[str, str] = {"confident": "flips_confident", "leaning": "flips_leaning", "flips": "flips"}
_TESTED: tuple[tuple[str, str], ...] = (("flips", "flips"), ("kl_ref_cand", "summed KL(ref||cand)"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the new stack may have at most, against its reference; None: no such rule."""

    confident: int | None = None
    leaning: int | None = None
    flips: int | None = None
    kl_nats: float | None = None
    """Of mean KL(ref||cand)."""
    no_worse: bool = False
    """Not worse than the old stack by the paired test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleVerdict:
    """One rule and what became of it."""

    rule: Rule
    passed: bool
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GateReport:
    """All verdicts, in the order of the rules."""

    old: str
    new: str
    scope: str
    rules: tuple[RuleVerdict, ...]

    @property
    def passed(self) -> bool:
        """Whether the new stack may replace the old one."""
        return all(rule.passed for rule in self.rules)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "old": self.old,
            "new": self.new,
            "passed": self.passed,
            "scope": self.scope,
            "must_not_be_quoted_for": MUST_NOT,
            "alpha": ALPHA,
            "rules": [{"rule": r.rule, "passed": r.passed, "detail": r.detail} for r in self.rules],
        }


def gate(old: Entry | None, new: Entry, limits: Limits) -> GateReport:
    """Hold the new stack against the limits.

    Args:
        old: The stack in use; None where it is the reference of `new` itself.
        new: The stack that shall replace it.
        limits: At least one rule.

    Raises:
        InvalidInput: no rule, other reference rows or probes, or a paired test that cannot be made.
    """
    if old is not None:
        require_one_cohort([old, new])
    rules = [*_counts(old, new, limits), *_mean(old, new, limits), *_paired(old, new, limits)]
    if not rules:
        raise InvalidInput("the gate has no rule", hint="give --max-confident, --max-flips, --max-kl or --no-worse")
    return GateReport(
        old="the reference" if old is None else old.label,
        new=new.label,
        scope=scope(compare_entries([new])),
        rules=tuple(rules),
    )


def _counts(old: Entry | None, new: Entry, limits: Limits) -> list[RuleVerdict]:
    asked: tuple[tuple[Rule, int | None], ...] = (
        ("confident", limits.confident),
        ("leaning", limits.leaning),
        ("flips", limits.flips),
    )
    verdicts = []
    for rule, limit in asked:
        if limit is None:
            continue
        name = _QUANTITIES[rule]
        count, n = getattr(new.headlines, name), new.headlines.n
        words = "flips" if rule == "flips" else f"{rule} flips"
        interval = new.intervals.count(name)
        spread = "" if interval is None else f", 95 % [{interval.low:.3g}, {interval.high:.3g}]"
        before = "" if old is None else f"; {old.label} has {getattr(old.headlines, name):,}"
        verdicts.append(
            RuleVerdict(
                rule=rule,
                passed=count <= limit,
                detail=f"{count:,} {words} of {n:,}{spread}; at most {limit:,} allowed{before}",
            )
        )
    return verdicts


def _mean(old: Entry | None, new: Entry, limits: Limits) -> list[RuleVerdict]:
    if limits.kl_nats is None:
        return []
    forward = new.headlines.kl_ref_cand
    assert forward is not None
    interval = new.intervals.mean("kl_ref_cand")
    spread = "" if interval is None else f", 95 % [{interval.low:.2g}, {interval.high:.2g}]"
    before = ""
    if old is not None and old.headlines.kl_ref_cand is not None:
        before = f"; {old.label} has {old.headlines.kl_ref_cand.mean:.3g}"
    rounding = "" if new.headlines.rounding_kl is None else f" (rounding alone {new.headlines.rounding_kl:.2g})"
    return [
        RuleVerdict(
            rule="kl",
            passed=forward.mean <= limits.kl_nats,
            detail=f"mean KL(ref||cand) {forward.mean:.3g} nats{spread}{rounding}; at most {limits.kl_nats:g} "
            f"allowed{before}",
        )
    ]


def _paired(old: Entry | None, new: Entry, limits: Limits) -> list[RuleVerdict]:
    if not limits.no_worse:
        return []
    if old is None:
        raise InvalidInput(
            "--no-worse needs two candidates of one reference, and the old stack is the reference itself",
            hint="use --max-confident, --max-flips or --max-kl",
        )
    if new.totals.refusal is not None:
        # A gate that cannot test must not pass.
        raise InvalidInput(
            f"--no-worse cannot be tested: {new.totals.refusal}",
            hint="use a longer session, or limits on counts (--max-confident, --max-flips)",
        )
    tests = [
        sign_flip_test(new.totals.sums[name] - old.totals.sums[name], alternative="greater") for name, _ in _TESTED
    ]
    corrected = holm([test.p_value for test in tests])
    told = [
        f"{words} {'worse' if p <= ALPHA else 'no difference shown'} (p {p_text(p)})"
        for (_, words), p in zip(_TESTED, corrected, strict=True)
    ]
    return [
        RuleVerdict(
            rule="no-worse",
            passed=all(p > ALPHA for p in corrected),
            detail=f"{new.label} against {old.label}, one-sided paired sign-flip per turn, Holm over 2 tests, alpha "
            f"{ALPHA}: {'; '.join(told)}",
        )
    ]
