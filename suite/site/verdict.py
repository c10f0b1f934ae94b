"""The verdict of a table in one line: what its tests allow to be said, and nothing beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.site.facts import BundleFacts, CohortFacts, RowFacts
from suite.site.numbers import p_value, share


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One line, what it rests on, and the stack that it speaks for."""

    line: str
    evidence: str
    pick: BundleFacts | None
    """The candidate nearest to the reference of those that no test calls worse than a change of kernel."""


def verdict_of(cohort: CohortFacts, bundles: Mapping[str, BundleFacts], names: Mapping[str, str]) -> Verdict:
    """What may be said of a table.

    Args:
        cohort: The table.
        bundles: By bundle.
        names: Short name of each bundle's name.
    """
    rows = [(row, bundles[row.bundle_id]) for row in cohort.rows]
    candidates = [(row, bundle) for row, bundle in rows if not bundle.is_band]
    near = [(row, bundle) for row, bundle in candidates if row.kernel_outcome == "no difference shown"]
    worse = [(row, bundle) for row, bundle in candidates if row.kernel_outcome == "worse"]
    if not candidates:
        line = "Only equally valid BF16 stacks were measured: there is no candidate to judge."
    elif near:
        line = f"{_listed(near, names)} {'shows' if len(near) == 1 else 'show'} no difference from a change of kernel."
        if worse:
            line += f" {_number(len(worse))} flip{'s' if len(worse) == 1 else ''} more than any change of kernel does."
    elif worse and len(worse) == len(candidates):
        first = worse[0][1]
        line = (
            f"Every candidate flips more than a change of kernel does; nearest to the reference is "
            f"{names[first.name]} with {first.flips:,} of {first.n:,}."
        )
    else:
        line = f"Counts only: {_why_untested(cohort, candidates)}."
    return Verdict(line=line, evidence=_evidence(cohort, near, worse, names), pick=near[0][1] if near else None)


def _evidence(
    cohort: CohortFacts,
    near: Sequence[tuple[RowFacts, BundleFacts]],
    worse: Sequence[tuple[RowFacts, BundleFacts]],
    names: Mapping[str, str],
) -> str:
    told = []
    for row, bundle in near[:2]:
        tail = f", {p_value(row.kernel_p)}" if row.kernel_p is not None else ""
        told.append(
            f"{names[bundle.name]}: {bundle.flips:,} of {bundle.n:,} flips ({share(bundle.flips, bundle.n)}), "
            f"{bundle.flips_confident or 'none'} confident; the band’s largest member has "
            f"{row.kernel_member_flips:,}{tail}"
        )
    if worse:
        least, most = worse[0][1], worse[-1][1]
        told.append(
            f"worse: {least.flips:,} ({names[least.name]})"
            + (f" to {most.flips:,} ({names[most.name]}) of {most.n:,}" if most is not least else f" of {least.n:,}")
        )
    turns = f", {cohort.num_turns} turns" if cohort.num_turns else ""
    told.append(f"one-sided paired test per turn, Holm, alpha 0.05{turns}")
    return "; ".join(told) + "."


def _why_untested(cohort: CohortFacts, candidates: Sequence[tuple[RowFacts, BundleFacts]]) -> str:
    if cohort.refusal:
        return cohort.refusal.removesuffix(": counts only")
    outcomes = {row.kernel_outcome for row, _ in candidates}
    if "not measured" in outcomes:
        return "no numerical band was measured against this reference, so nothing is called worse than a kernel change"
    return "the band’s largest member is not at hand, so nothing is called worse than a kernel change"


def _listed(rows: Sequence[tuple[RowFacts, BundleFacts]], names: Mapping[str, str]) -> str:
    told = [names[bundle.name] for _, bundle in rows]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _number(count: int) -> str:
    words = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
    return f"{words[count] if count < len(words) else count} {'other' if count == 1 else 'others'}"
