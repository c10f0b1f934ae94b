"""Every interval that may be quoted of one ledger, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from suite.score.bootstrap import Bootstrap, Interval, cluster_bootstrap
from suite.score.ledger import Ledger
from suite.score.turns import TurnTotals, turn_totals


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerIntervals:
    """Intervals of one session's counts and means; none for quantiles or a maximum."""

    n: int
    bootstrap: Bootstrap | None
    refusal: str | None
    """Why there is no interval at all."""

    def mean(self, name: str) -> Interval | None:
        """Interval of a mean per probe, for a name of `suite.score.turns.QUANTITIES`."""
        return None if self.bootstrap is None else self.bootstrap.intervals.get(name)

    def count(self, name: str) -> Interval | None:
        """Interval of a count in n probes."""
        interval = self.mean(name)
        return None if interval is None else interval.times(self.n)

    @property
    def told(self) -> str:
        """How the intervals were made, or why there are none."""
        if self.bootstrap is None:
            return f"No intervals: {self.refusal}."
        return f"Intervals: {self.bootstrap.method}. They speak of this session."


def ledger_intervals(ledger: Ledger) -> LedgerIntervals:
    """Intervals of all counts and means of a ledger; none where a row is not finite."""
    columns = ledger.columns
    if not (columns["finite_ref"] & columns["finite_cand"]).all():
        return LedgerIntervals(n=ledger.num_rows, bootstrap=None, refusal="a row is not finite")
    if not ledger.num_rows:
        return LedgerIntervals(n=0, bootstrap=None, refusal="no probes")
    return intervals_of(turn_totals(ledger))


def intervals_of(totals: TurnTotals) -> LedgerIntervals:
    """The same from sums per turn."""
    return LedgerIntervals(n=int(totals.n.sum()), bootstrap=cluster_bootstrap(totals), refusal=totals.refusal)
