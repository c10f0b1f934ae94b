"""Intervals of several ledgers of one session from the same draws: drawing turns is most of what an interval costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from suite.score.bootstrap import Bootstrap, cluster_bootstrap
from suite.score.intervals import LedgerIntervals
from suite.score.turns import TurnTotals

_AT_ONCE = 24
"""Ledgers of one batch: its replicates take 100,000 x 16 bytes for each name of each ledger."""


def intervals_together(totals: Sequence[TurnTotals], names: Sequence[str]) -> tuple[LedgerIntervals, ...]:
    """What `suite.score.intervals.intervals_of` gives for each ledger, restricted to some quantities.

    The draws depend on the number of turns and on the seed only, so ledgers with the same probes in the same turns
    share them: each interval is the one that its ledger has alone, to the last bits of a sum.

    Args:
        totals: Sums per turn, of any ledgers.
        names: Of `suite.score.turns.QUANTITIES`; other quantities have no interval in the result.
    """
    batches: dict[tuple[bytes, int], list[int]] = {}
    last: dict[bytes, int] = {}
    for place, one in enumerate(totals):
        probes = one.n.tobytes()
        number = last.get(probes, 0)
        if len(batches.get((probes, number), ())) >= _AT_ONCE:
            number += 1
        last[probes] = number
        batches.setdefault((probes, number), []).append(place)
    found: dict[int, Bootstrap | None] = {}
    for places in batches.values():
        found |= zip(places, _batch([totals[place] for place in places], names), strict=True)
    return tuple(
        LedgerIntervals(n=int(one.n.sum()), bootstrap=found[place], refusal=one.refusal)
        for place, one in enumerate(totals)
    )


def _batch(totals: Sequence[TurnTotals], names: Sequence[str]) -> list[Bootstrap | None]:
    first = totals[0]
    # A name begins as it does alone: counts are told from divergences by it.
    sums = {f"{name} {place}": one.sums[name] for place, one in enumerate(totals) for name in names}
    drawn = cluster_bootstrap(replace(first, sums=sums))
    if drawn is None:
        return [None] * len(totals)
    return [
        replace(drawn, intervals={name: drawn.intervals[f"{name} {place}"] for name in names})
        for place in range(len(totals))
    ]
