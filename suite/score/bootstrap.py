"""Cluster bootstrap over turns: intervals for shares and means per probe, for probes that come in clusters.

Turns are drawn with replacement, as many as there are; the estimate is the ratio of sums, Σ y / Σ n. At each end stands
the more cautious of two intervals, since neither alone holds its coverage for both rare flips and heavy-tailed
divergences in 15 to 60 turns (docs/statistics.md has the simulation):

- BCa (Efron, "Better bootstrap confidence intervals", JASA 82, 1987; acceleration by the jackknife over turns);
- the studentised bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 12), with the
  linearised variance of a ratio, T/(T-1) · Σ (y - r n)² / (Σ n)².

The nominal levels of both are widened for few clusters to Φ(-sqrt((f+1)/f) · t) with Student's t at f degrees
(Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69, 2015, section 5.2). For
counts, which are bounded, f is T-1. A divergence has no bound, and where a few turns hold most of it, T of them tell
less of its spread: its f is at most Satterthwaite's 2T/(κ-1), κ the kurtosis of y - r n over turns ("An approximate
distribution of estimates of variance components", Biometrics Bulletin 2, 1946; the variance of a sample variance is
(κ-1) σ⁴/T). No interval reaches beyond the largest mean that any one turn has: where a single turn holds nearly
everything, replicates without it have next to no spread of their own, and their studentised values know no bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.score.tails import tail_quantiles
from suite.score.turns import TurnTotals, Values

REPLICATES = 100_000
LEVEL = 0.95
SEED = 20_260_301
"""Of NumPy's PCG64; the same ledger gives the same interval everywhere."""
MIN_TURNS_WITH_EVENTS = 2
"""A quantity that is zero in all turns but one has no spread to resample."""

_DRAWS_LIMIT = 50_000_000
_BLOCK_DRAWS = 262_144
_KEPT_DRAWS = 16_000_000
"""Draws of which the weights are kept, at a byte each."""
_ROUNDING = 1e-12
_LEAST_DEGREES = 3.0
_LEAST_SPREAD = 1e-3
"""Share of the sample's standard error below which that of a replicate is mostly rounding, or 0."""
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Two-sided 95 % interval of a mean per probe."""

    low: float
    high: float

    def times(self, factor: float) -> Interval:
        """The interval of the mean times `factor`, for instance of a count in `factor` probes."""
        return Interval(low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """Intervals of several quantities from the same draws."""

    intervals: dict[str, Interval | None]
    """Name -> interval of its mean per probe; None where fewer than two turns hold any of it."""
    num_turns: int
    replicates: int
    seed: int

    @property
    def method(self) -> str:
        """What was done, in words."""
        return (
            f"95 % cluster bootstrap: {self.num_turns} turns resampled {self.replicates:,} times, the wider of BCa and "
            f"studentised at each end, seed {self.seed}"
        )


def cluster_bootstrap(
    totals: TurnTotals, names: Iterable[str] | None = None, *, replicates: int = REPLICATES, seed: int = SEED
) -> Bootstrap | None:
    """Intervals for the mean per probe of the named quantities; None under 10 turns, and without turns.

    Args:
        totals: Sums per turn. Quantities are never negative.
        names: Of `totals.sums`; None: all.
        replicates: At most so many; with very many turns fewer, to keep to 50 million draws.
        seed: Of the draws.
    """
    if totals.refusal is not None:
        return None
    asked = list(totals.sums if names is None else names)
    wanted = [name for name in asked if np.count_nonzero(totals.sums[name]) >= MIN_TURNS_WITH_EVENTS]
    used = min(replicates, max(2_000, _DRAWS_LIMIT // totals.num_turns))
    intervals: dict[str, Interval | None] = dict.fromkeys(asked)
    if not wanted:
        return Bootstrap(intervals=intervals, num_turns=totals.num_turns, replicates=used, seed=seed)
    sums = np.array([totals.sums[name] for name in wanted])
    # In units of the estimate, so that no square or cube of a small divergence underflows; by way of the largest sum,
    # since the estimate itself may underflow.
    peaks = sums.max(axis=1, keepdims=True)
    sums = np.divide(sums, peaks, out=np.zeros_like(sums), where=peaks > 0)
    means = sums.sum(axis=1, keepdims=True) / totals.n.sum()
    sums = np.divide(sums, means, out=np.zeros_like(sums), where=means > 0)
    shifts, spreads = _replicates(sums, totals.n, replicates=used, seed=seed)
    found = [
        _interval(sums[i], totals.n, shifts[i], spreads[i], bounded=name.startswith("flips"))
        for i, name in enumerate(wanted)
    ]
    for i, (name, interval) in enumerate(zip(wanted, found, strict=True)):
        intervals[name] = interval.times(float(peaks[i, 0] * means[i, 0]))
    return Bootstrap(intervals=intervals, num_turns=totals.num_turns, replicates=used, seed=seed)


def _weights(turns: int, replicates: int, seed: int) -> Iterator[NDArray[Any]]:
    """How often each turn is drawn in each replicate, in blocks [rows, turns]."""
    block = max(1, _BLOCK_DRAWS // turns)
    if turns <= np.iinfo(np.uint8).max and turns * replicates <= _KEPT_DRAWS:
        kept = _kept_weights(turns, replicates, seed)
        yield from (kept[start : start + block] for start in range(0, replicates, block))
    else:
        yield from _drawn_weights(turns, replicates, seed)


@lru_cache(maxsize=1)
def _kept_weights(turns: int, replicates: int, seed: int) -> NDArray[np.uint8]:
    """All of them at once, a byte each: ledgers of one session are resampled in the same way, one after the other."""
    return np.concatenate([block.astype(np.uint8) for block in _drawn_weights(turns, replicates, seed)])


def _drawn_weights(turns: int, replicates: int, seed: int) -> Iterator[NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    block = max(1, _BLOCK_DRAWS // turns)
    for start in range(0, replicates, block):
        rows = min(block, replicates - start)
        drawn = random.integers(0, turns, size=(rows, turns), dtype=np.int64)
        drawn += (np.arange(rows, dtype=np.int64) * turns)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * turns).reshape(rows, turns)


def _replicates(sums: Values, n: Values, *, replicates: int, seed: int) -> tuple[Values, Values]:
    """Ratio minus estimate, and its standard error, in every replicate; each [k, replicates], for `sums` [k, T]."""
    count, turns = sums.shape
    # Sums are taken around the estimate: so much is lost by subtraction otherwise that equal turns seem to differ.
    centred = sums - sums.sum(axis=1, keepdims=True) / n.sum() * n
    design = np.concatenate([centred, centred * centred, centred * n, [n, n * n]])
    shifts, spreads = np.empty((count, replicates)), np.empty((count, replicates))
    start = 0
    for weights in _weights(turns, replicates, seed):
        rows = len(weights)
        total = design @ weights.astype(np.float64).T
        (z, zz, zn), (size, square) = np.split(total[:-2], 3), total[-2:]
        shift = np.divide(z, size, out=shifts[:, start : start + rows])
        variance = (zz - 2 * shift * zn + shift * shift * square) * (turns / (turns - 1))
        spreads[:, start : start + rows] = np.sqrt(np.maximum(variance, 0)) / size
        start += rows
    return shifts, spreads


def _interval(y: Values, n: Values, shifts: Values, spreads: Values, *, bounded: bool) -> Interval:
    """Interval of a mean whose estimate is 1."""
    degrees = len(y) - 1 if bounded else _degrees(y - n)
    reach = math.sqrt((degrees + 1) / degrees) * student_quantile(1 - (1 - LEVEL) / 2, degrees)
    first, second = _bca(y, n, shifts, reach), _studentised(y, n, shifts, spreads, reach)
    low, high = 1 + min(first[0], second[0]), 1 + max(first[1], second[1])
    return Interval(low=max(low, 0.0), high=max(low, min(high, float((y / n).max()))))


def _degrees(deviations: Values) -> float:
    """Degrees of freedom of a variance estimated from these deviations [T], by their kurtosis; at most T-1."""
    most = len(deviations) - 1
    square, fourth = float((deviations**2).sum()), float((deviations**4).sum())
    excess = len(deviations) * fourth / square**2 - 1 if square > 0 else 0.0
    return most if excess <= 0 else max(_LEAST_DEGREES, min(most, 2 * len(deviations) / excess))


def _bca(y: Values, n: Values, shifts: Values, reach: float) -> tuple[float, float]:
    # Replicates that equal the estimate but for rounding count half.
    less, most = np.count_nonzero(shifts < -_ROUNDING), np.count_nonzero(shifts <= _ROUNDING)
    below = (less + most) / 2 / len(shifts)
    bias = _NORMAL.inv_cdf(min(max(below, 1 / len(shifts)), 1 - 1 / len(shifts)))
    left_out = (y.sum() - y) / (n.sum() - n)
    influence = left_out.mean() - left_out
    square = float((influence**2).sum())
    acceleration = float((influence**3).sum()) / (6 * square**1.5) if square > 0 else 0.0

    def level(z: float) -> float:
        shifted = bias + z
        return _NORMAL.cdf(bias + shifted / max(1 - acceleration * shifted, 1e-3))

    low, high = tail_quantiles(shifts, (level(-reach), level(reach)))
    return low, high


def _studentised(y: Values, n: Values, shifts: Values, spreads: Values, reach: float) -> tuple[float, float]:
    turns = len(y)
    spread = math.sqrt(float(((y - n) ** 2).sum()) * turns / (turns - 1)) / float(n.sum())
    usable = spreads > max(spread * _LEAST_SPREAD, _ROUNDING)
    if not usable.any():
        return 0.0, 0.0
    ratios = shifts / spreads if usable.all() else shifts[usable] / spreads[usable]
    high, low = tail_quantiles(ratios, (_NORMAL.cdf(reach), _NORMAL.cdf(-reach)))
    return -high * spread, -low * spread


def student_quantile(share: float, degrees: float) -> float:
    """Quantile of Student's t, to four digits from 9 degrees of freedom and to two from 3.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = _NORMAL.inv_cdf(share)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))
