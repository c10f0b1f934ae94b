"""By what a table can be sorted and its rows tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from suite.compare.entries import Entry
from suite.score.turns import Values

MetricName = Literal["flips", "confident", "leaning", "uncertain", "tied", "kl", "kl-reverse", "jsd", "tv"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One quantity; less of it is nearer to the reference."""

    name: MetricName
    quantity: str
    """Its name in `suite.score.turns.QUANTITIES`."""
    words: str
    """As in "fewer flips"."""

    @property
    def is_count(self) -> bool:
        """Whether it counts probes; else it is a mean in nats (total variation: between 0 and 1)."""
        return self.quantity.startswith("flips")

    @property
    def less(self) -> str:
        """`fewer flips`, `a lower mean KL`."""
        return f"fewer {self.words}" if self.is_count else f"a lower {self.words}"

    def per_turn(self, entry: Entry) -> Values:
        """Its sum over each turn, [T]."""
        return entry.totals.sums[self.quantity]

    def value(self, entry: Entry) -> float:
        """The count, or the mean per probe."""
        total = float(self.per_turn(entry).sum())
        return total if self.is_count else total / entry.headlines.n


METRICS: dict[MetricName, Metric] = {
    metric.name: metric
    for metric in (
        Metric(name="flips", quantity="flips", words="flips"),
        Metric(name="confident", quantity="flips_confident", words="confident flips"),
        Metric(name="leaning", quantity="flips_leaning", words="leaning flips"),
        Metric(name="uncertain", quantity="flips_uncertain", words="uncertain flips"),
        Metric(name="tied", quantity="flips_tied", words="tied flips"),
        Metric(name="kl", quantity="kl_ref_cand", words="mean KL(ref||cand)"),
        Metric(name="kl-reverse", quantity="kl_cand_ref", words="mean KL(cand||ref)"),
        Metric(name="jsd", quantity="jsd", words="mean JSD"),
        Metric(name="tv", quantity="total_variation", words="mean total variation"),
    )
}
