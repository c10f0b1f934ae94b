"""The methodology block: the fields of the card lint as a bundle answers them, and what pages add to those."""

from __future__ import annotations

from collections.abc import Iterator

from suite.bundle.read import Bundle
from suite.card.method import method_of
from suite.errors import SuiteError
from suite.site.facts import BundleFacts

Answer = tuple[str, str, bool]
"""Question, answer, and whether the answer is that something is not known or not measured."""


def answers(facts: BundleFacts, bundle: Bundle) -> tuple[Answer, ...]:
    """The block of one bundle; without the fields that rest on a receipt which cannot be read."""
    try:
        fields = tuple((row.title, row.value, False) for row in method_of(bundle))
    except SuiteError as error:
        fields = (("Method", f"cannot be told: {error.message}", True),)
    return (*fields, *_further(facts))


def _further(facts: BundleFacts) -> Iterator[Answer]:
    yield "Factors", _factors(facts), False
    yield (
        "Base of a table",
        "rows with these reference rows, by SHA-256, at the same probes: one base for all",
        False,
    )
    yield "Tails", "median, p90, p99 and maximum; p99.9 from 10,000 probes on", False
    yield "Intervals", facts.interval_method, False
    band = f"{len(facts.band)} equally valid stacks against the same rows" if facts.band else "not measured"
    yield "Numerical band", "a member of it" if facts.is_band else band, not facts.band and not facts.is_band
    yield "Tool calls", _calls(facts), not facts.calls
    followed = f"{sum(c.used for c in facts.consequences):,} followed" if facts.consequences else "not followed"
    yield "What became of the flips", followed, not facts.consequences


def _factors(facts: BundleFacts) -> str:
    if not facts.factors:
        return "none: the same stack as its reference"
    told = "; ".join(f"{f.key}: {f.reference} → {f.candidate}" for f in facts.factors)
    return f"one: {told}" if facts.causal_claim else f"{len(facts.factors)}, so no causal claim: {told}"


def _calls(facts: BundleFacts) -> str:
    if not facts.calls:
        return "not measured: no turn was replayed"
    return "; ".join(f"{c.survived} of {c.n} calls survive ({c.settings} settings, {c.mode})" for c in facts.calls)
