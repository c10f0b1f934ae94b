"""A whole comparison: sorted rows, what the tests say of them, and the sentences that stand around the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.bundle.arbiter import read_arbiter
from suite.bundle.show import shown
from suite.compare.entries import Entry, load_entries
from suite.compare.kernel_change import Verdict, verdicts
from suite.compare.metrics import METRICS, MetricName
from suite.compare.ranking import Pair, Ranking, rank
from suite.score.paired import ALPHA

MUST_NOT = (
    "Must not be quoted for other sessions, lengths, paths, hardware or versions, nor for what a model can do. "
    "BF16 is a reference, not the truth."
)
_PAIRS_SHOWN = 6
_LEGEND = (
    "Each flip is in one class: tied (equal best logits), else by the reference's probability of its own top-1: below "
    "0.5, below 0.9, confident (0.9 and above). A single factor may be the cause; what merely follows from it is not "
    "listed."
)
_NO_INTERVAL = " None for quantiles or a maximum, nor where fewer than two turns hold any of what is counted."


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Bundles of one cohort in one table."""

    ranking: Ranking
    kernel: tuple[Verdict, ...]
    """One per row, in the order of the rows."""
    passed_over: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Entry, ...]:
        """In the order of the table."""
        return self.ranking.entries


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member of the numerical band: an equally valid BF16 stack against the same reference rows."""

    name: str
    bundle: str
    flips: int
    n: int


def compare(paths: Sequence[Path], *, sort: MetricName = "flips") -> Comparison:
    """Compare bundles, or what lies in folders of results.

    Raises:
        InvalidInput, VerificationFailed: see `suite.compare.entries.load_entries`.
    """
    found = load_entries(paths)
    return compare_entries(found.entries, sort=sort, passed_over=found.passed_over)


def compare_entries(
    entries: Sequence[Entry],
    *,
    sort: MetricName = "flips",
    passed_over: tuple[str, ...] = (),
    also_by_kl: bool = True,
) -> Comparison:
    """Compare entries of one cohort; `also_by_kl` as in `suite.compare.ranking.rank`."""
    ranking = rank(entries, METRICS[sort], also_by_kl=also_by_kl)
    return Comparison(ranking=ranking, kernel=verdicts(ranking.entries), passed_over=passed_over)


def scope(comparison: Comparison) -> str:
    """What the numbers speak of."""
    first = comparison.rows[0]
    record, headlines = first.bundle.record, first.headlines
    tiers = sorted({entry.bundle.record.tier for entry in comparison.rows})
    workload = first.lock.workload
    # Rows of one cohort have equal reference rows, so any row's reference lock names them.
    reference = shown(first.bundle.lock("reference-lock.json").name, limit=60)
    turns = f" in {first.totals.num_turns} turns" if first.totals.known else ""
    return (
        f"Scope: {headlines.n:,} probes{turns} of one recorded session ({shown(workload.name, limit=40)}, "
        f"{workload.num_tokens:,} tokens), {headlines.path} path, vocabulary {headlines.vocab_size:,}, reference "
        f"{reference} (rows {record.evidence.reference.rows_sha256[:12]}); {' and '.join(tiers)}, not verified here. "
        f"Off-policy: at {record.off_policy.count:,} of {record.off_policy.n:,} probes the reference's top-1 is not "
        "the recorded token."
    )


def cause(entry: Entry) -> str:
    """The one factor that varies, or why no cause may be named."""
    record = entry.bundle.record
    names = ", ".join(shown(factor.key, limit=30) for factor in record.factors)
    if not record.factors:
        return "none (same stack)"
    return names if record.causal_claim else f"no causal claim: {names}"


def winner_text(comparison: Comparison) -> str:
    """Which row may be called best, or that none may."""
    ranking = comparison.ranking
    if ranking.refusal is not None:
        return f"No ranking: {ranking.refusal}."
    if len(ranking.entries) < 2:
        return "One row: nothing to rank."
    over = "1 pair" if len(ranking.pairs) == 1 else f"Holm over {len(ranking.pairs)} pairs"
    test = (
        f"(paired sign-flip per turn, two-sided, {over}, alpha {ALPHA}). Rows that it does not separate share a rank."
    )
    if ranking.winner is not None:
        return f"{ranking.winner.label} has {ranking.metric.less} than every other row {test}"
    return f"No winner by {ranking.metric.words}: no row is separated from every other {test}"


def pairs_text(comparison: Comparison) -> list[str]:
    """Which pairs the test separates, and which it does not."""
    ranking = comparison.ranking
    apart = [pair for pair in ranking.pairs if pair.separated]
    same = [pair for pair in ranking.pairs if not pair.separated]
    lines = []
    if apart:
        less = ranking.metric.less
        lines.append(f"{less[0].upper()}{less[1:]}: {_listed(comparison, apart, ' than ')}.")
    if same:
        lines.append(f"No difference shown: {_listed(comparison, same, ' and ')}.")
    return lines


def band_members(comparison: Comparison) -> tuple[Member, ...]:
    """Members in the table or named by a bundle in it, most flips first."""
    members = {
        m.bundle: Member(name=m.name, bundle=m.bundle, flips=m.flips, n=m.n)
        for entry in comparison.rows
        for m in entry.bundle.record.band
    }
    for entry in comparison.rows:
        if entry.is_band:
            bundle, h = entry.bundle.bundle_id, entry.headlines
            members[bundle] = Member(name=entry.label, bundle=bundle, flips=h.flips, n=h.n)
    return tuple(sorted(members.values(), key=lambda member: (-member.flips, member.name)))


def band_text(comparison: Comparison) -> str:
    """The numerical band: flips of equally valid stacks against the same reference."""
    members = band_members(comparison)
    if not members:
        return (
            "Numerical band: not measured, so no row may be called worse than a kernel change (run manifests of role "
            "`band` with the same reference)."
        )
    listed = ", ".join(f"{shown(member.name)} {member.flips:,} of {member.n:,}" for member in members)
    return (
        f"Numerical band (equally valid BF16 stacks): {listed}. Worse than a kernel change: more flips than its "
        f"largest member by a one-sided paired test, Holm, alpha {ALPHA}."
    )


def notes(comparison: Comparison) -> list[str]:
    """Everything a reader of the table must know, in order."""
    rows = comparison.rows
    replayed = [entry for entry in rows if entry.headlines.replayed_rows]
    return [
        _LEGEND,
        winner_text(comparison),
        *pairs_text(comparison),
        band_text(comparison),
        rows[0].intervals.told + _NO_INTERVAL,
        *[
            f"{entry.label}: {entry.headlines.replayed_rows:,} of {entry.headlines.n:,} probes have a row replayed on "
            "another processor; their flips are by the captured ids, their KL is replayed."
            for entry in replayed
        ],
        "A mean near the reference's does not rank stacks: read the tail and the confident flips. Repeat floors are "
        "never subtracted.",
        *_arbiters(rows),
        *[f"Passed over: {shown(text, limit=160)}." for text in comparison.passed_over],
    ]


def _arbiters(rows: Sequence[Entry]) -> list[str]:
    found = [(entry, read_arbiter(entry.bundle)) for entry in rows]
    told = [f"{entry.label}: {shown(record.text(), limit=200)}." for entry, record in found if record is not None]
    return [*told, "An arbiter says which side is nearer to float32 arithmetic, not which is right."] if told else []


def _listed(comparison: Comparison, pairs: Sequence[Pair], between: str) -> str:
    rows = comparison.rows
    told = [
        f"{rows[pair.lower].label}{between}{rows[pair.higher].label} (p {p_text(pair.p_holm)})"
        for pair in pairs[:_PAIRS_SHOWN]
    ]
    more = len(pairs) - len(told)
    return ", ".join(told) + (f" and {more} more pairs" if more else "")


def p_text(p_value: float) -> str:
    """A p-value as people read it."""
    return f"{p_value:.2g}" if p_value >= 0.001 else "< 0.001"
