"""Flips by class and consequence: the headline that a bundle carries, and its intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from suite.branch.schema import (
    CONSEQUENCES,
    BranchHeadlines,
    ClassCounts,
    Consequence,
    ConsequenceName,
    Fork,
    ForkPolicy,
)
from suite.branch.select import choose_forks
from suite.errors import VerificationFailed
from suite.score.bootstrap import Interval
from suite.score.classes import FlipClass
from suite.score.intervals import LedgerIntervals, intervals_of
from suite.score.ledger import Ledger
from suite.score.turns import totals_of


def count_branches(ledger: Ledger, policy: ForkPolicy, forks: Sequence[Fork]) -> BranchHeadlines:
    """Counts by class.

    Args:
        ledger: Of which the forks are flips.
        policy: Which flips were to be followed.
        forks: In order of position.

    Raises:
        VerificationFailed: the forks are not the flips that the policy chooses.
    """
    selection = choose_forks(ledger, policy)
    positions = ledger.columns["position"][list(selection.rows)].tolist()
    if [fork.position for fork in forks] != positions:
        raise VerificationFailed("its forks are not the flips of the ledger that its policy chooses")
    by_class = []
    for item in selection.by_class:
        ours = [fork for fork in forks if fork.flip_class == item.flip_class]
        used = [fork for fork in ours if fork.used]
        disagree = Counter(_disagreeing(fork) for fork in ours)
        consequences = [fork.consequence for fork in used if fork.consequence is not None]
        by_class.append(
            ClassCounts(
                flip_class=item.flip_class,
                flips=item.flips,
                outside_output=item.outside_output,
                left_out=item.left_out,
                reference_mismatches=disagree["reference"],
                candidate_mismatches=disagree["candidate"],
                both_mismatch=disagree["both"],
                used=len(used),
                consequences=_count(consequences),
                in_reference=_count(c for c in consequences if c.in_reference),
                token_consequences=_count(f.token_consequence for f in used if f.token_consequence is not None),
            )
        )
    return BranchHeadlines(followed=len(forks), used=sum(counts.used for counts in by_class), by_class=tuple(by_class))


def branch_intervals(forks: Iterable[Fork], flip_class: FlipClass | None) -> LedgerIntervals:
    """Intervals for the share of each consequence among the forks used of one class (None: of all), over turns.

    `mean` and `count` of the result take the name of a consequence.
    """
    used = [fork for fork in forks if fork.consequence is not None and flip_class in (None, fork.flip_class)]
    if not used:
        return LedgerIntervals(n=0, bootstrap=None, refusal="no forks")
    turns, place = np.unique(np.array([fork.turn for fork in used]), return_inverse=True)
    names = np.array([fork.consequence.name for fork in used if fork.consequence is not None])
    return intervals_of(totals_of(turns, place, {str(name): names == name for name in CONSEQUENCES}))


def interval_text(interval: Interval | None) -> str:
    """` (2 to 7)`, or nothing where there is no interval."""
    return "" if interval is None else f" ({interval.low:.0f} to {interval.high:.0f})"


def _count(consequences: Iterable[Consequence]) -> dict[ConsequenceName, int]:
    found = Counter(consequence.name for consequence in consequences)
    return {name: found[name] for name in CONSEQUENCES}


def _disagreeing(fork: Fork) -> str:
    candidate = fork.future("candidate")
    reference = fork.future("reference")
    sides = (reference is not None and not reference.agrees, candidate is not None and not candidate.agrees)
    return {(True, True): "both", (True, False): "reference", (False, True): "candidate"}.get(sides, "")
