"""Whether a candidate is worse than a kernel change: the paired test against the numerical band's largest member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from suite.bundle.read import open_bundle
from suite.compare.entries import Entry, load_entry
from suite.errors import SuiteError
from suite.score.paired import ALPHA, SignFlip, holm, sign_flip_tests
from suite.score.same_probes import differing

Outcome = Literal["worse", "no difference shown", "band member", "not measured", "no ledger", "not tested"]

WORDS: dict[Outcome, str] = {
    "worse": "worse",
    "no difference shown": "no difference shown",
    "band member": "(band member)",
    "not measured": "band not measured",
    "no ledger": "band's ledger absent",
    "not tested": "not tested",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One row against the band."""

    outcome: Outcome
    member: str | None = None
    """The band's largest member by flips."""
    member_flips: int | None = None
    test: SignFlip | None = None
    """One-sided: has the row more flips per turn than the member?"""
    p_holm: float | None = None
    """Corrected for all rows of the table."""


def verdicts(entries: Sequence[Entry]) -> tuple[Verdict, ...]:
    """The verdict on each entry of one cohort, in the order given."""
    found = [_largest(entry, entries) for entry in entries]
    differences, tested = [], []
    for place, (entry, member) in enumerate(zip(entries, found, strict=True)):
        if isinstance(member, Entry) and entry.totals.refusal is None:
            differences.append(entry.totals.sums["flips"] - member.totals.sums["flips"])
            tested.append(place)
    tests = sign_flip_tests(np.stack(differences, axis=1), alternative="greater") if tested else ()
    corrected = dict(zip(tested, zip(tests, holm([test.p_value for test in tests]), strict=True), strict=True))
    result = []
    for place, member in enumerate(found):
        if not isinstance(member, Entry):
            result.append(Verdict(outcome=member))
            continue
        common = {"member": member.label, "member_flips": member.headlines.flips}
        if place not in corrected:
            result.append(Verdict(outcome="not tested", **common))  # type: ignore[arg-type]
            continue
        test, p_holm = corrected[place]
        outcome: Outcome = "worse" if p_holm <= ALPHA else "no difference shown"
        result.append(Verdict(outcome=outcome, test=test, p_holm=p_holm, **common))  # type: ignore[arg-type]
    return tuple(result)


def _largest(entry: Entry, entries: Sequence[Entry]) -> Entry | Outcome:
    """The band member with the most flips that was measured against the same reference at the same probes."""
    if entry.is_band:
        return "band member"
    here = {other.bundle.bundle_id: other for other in entries if other.is_band}
    named = entry.bundle.record.band
    most = max([m.flips for m in named] + [m.headlines.flips for m in here.values()], default=None)
    if most is None:
        return "not measured"
    members = list(here.values())
    # A newer bundle may list members that are not in the table; they lie in the same folder of results.
    members += [m for member in named if member.bundle not in here for m in _beside(entry, member.bundle)]
    largest = [member for member in members if member.headlines.flips >= most]
    return largest[0] if largest else "no ledger"


def _beside(entry: Entry, bundle_id: str) -> list[Entry]:
    try:
        bundle = open_bundle(entry.bundle.folder.parent.parent / bundle_id)
        member = load_entry(bundle)
    except SuiteError:
        return []
    same = bundle.bundle_id == bundle_id and member.is_band and not differing(entry.ledger, member.ledger)
    return [member] if same else []
