"""Which rows a table may rank: only those that the paired test separates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from suite.compare.entries import Entry
from suite.compare.metrics import METRICS, Metric
from suite.score.paired import ALPHA, SignFlip, holm, sign_flip_tests


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two rows of one table, tested turn by turn."""

    lower: int
    """Place of the row with less of the metric."""
    higher: int
    test: SignFlip
    """Higher minus lower, two-sided."""
    p_holm: float
    """Corrected for all pairs of the table."""
    kl: SignFlip | None
    """The same pair by summed KL(ref||cand), uncorrected; it ranks nothing unless the table is sorted by KL. None where
    it was not asked for."""

    @property
    def separated(self) -> bool:
        """Whether a difference is shown."""
        return self.p_holm <= ALPHA


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Rows in order of a metric, least first, and what the paired tests say of the order."""

    metric: Metric
    entries: tuple[Entry, ...]
    ranks: tuple[int, ...] | None
    """A rank is higher than the one before only where every row above is separated from every row below, so rows that
    are not separated share one. None where nothing could be tested."""
    pairs: tuple[Pair, ...]
    refusal: str | None
    """Why nothing was tested."""

    @property
    def winner(self) -> Entry | None:
        """The row that the test separates from every other; None if there is none, or only one row."""
        mine = [pair for pair in self.pairs if pair.lower == 0]
        return self.entries[0] if mine and all(pair.separated for pair in mine) else None


def rank(entries: Sequence[Entry], metric: Metric, *, also_by_kl: bool = True) -> Ranking:
    """Sort entries of one cohort by `metric` and test every pair.

    Args:
        entries: At least one; all of the same probes.
        metric: What is compared; ties in it go by label.
        also_by_kl: Test every pair by KL too; that takes most of the time.
    """
    ordered = tuple(sorted(entries, key=lambda entry: (metric.value(entry), entry.label)))
    refusal = ordered[0].totals.refusal
    places = list(combinations(range(len(ordered)), 2))
    if refusal is not None or not places:
        return Ranking(metric=metric, entries=ordered, ranks=None, pairs=(), refusal=refusal)
    tests = _tests(ordered, metric, places)
    by_kl = _tests(ordered, METRICS["kl"], places) if also_by_kl else [None] * len(places)
    corrected = holm([test.p_value for test in tests])
    pairs = tuple(
        Pair(lower=low, higher=high, test=test, p_holm=p, kl=kl)
        for (low, high), test, p, kl in zip(places, tests, corrected, by_kl, strict=True)
    )
    return Ranking(metric=metric, entries=ordered, ranks=shared_ranks(len(ordered), pairs), pairs=pairs, refusal=None)


def shared_ranks(count: int, pairs: Sequence[Pair]) -> tuple[int, ...]:
    """Ranks from 1 of `count` sorted rows: see `Ranking.ranks`."""
    separated = {(pair.lower, pair.higher) for pair in pairs if pair.separated}
    ranks, current = [], 1
    for row in range(count):
        if row and all((above, below) in separated for above in range(row) for below in range(row, count)):
            current = row + 1
        ranks.append(current)
    return tuple(ranks)


def _tests(entries: Sequence[Entry], metric: Metric, places: list[tuple[int, int]]) -> tuple[SignFlip, ...]:
    totals = [metric.per_turn(entry) for entry in entries]
    return sign_flip_tests(np.stack([totals[high] - totals[low] for low, high in places], axis=1))
