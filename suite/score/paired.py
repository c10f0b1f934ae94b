"""Paired tests between two candidates of one reference, which flip the sign of each turn's difference.

Under the null hypothesis the two candidates are exchangeable within a turn, so every assignment of signs to the turns'
differences is equally likely (Fisher's randomisation test; the +1 of random draws after Phipson and Smyth,
"Permutation p-values should never be zero", 2010). Many tests in one table are corrected by Holm's step-down procedure
(Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from suite.score.bootstrap import SEED
from suite.score.turns import Values

ALPHA = 0.05
EXACT_UP_TO = 20
"""Informative turns up to which all 2^k assignments are gone through; with more of them those of counts are counted."""
_MOST_COUNTED = 1 << 20
"""Sum of absolute differences up to which that takes no longer than random assignments."""
RANDOM_FLIPS = 100_000

Alternative = Literal["two-sided", "greater"]

_BLOCK = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class SignFlip:
    """Outcome of one test."""

    difference: float
    """Sum over turns of first minus second."""
    informative_turns: int
    """Turns in which the two differ; the others say nothing."""
    p_value: float
    exact: bool
    """All assignments are counted; otherwise 100,000 random ones."""


def sign_flip_tests(
    differences: Values, *, alternative: Alternative = "two-sided", seed: int = SEED
) -> tuple[SignFlip, ...]:
    """Test P pairs over the same T turns.

    Args:
        differences: [T, P], per turn: sum of the first candidate minus that of the second.
        alternative: "greater" asks whether the first has more.
        seed: Of the random signs, which all pairs share.
    """
    informative = (differences != 0).sum(axis=0)
    few = informative <= EXACT_UP_TO
    whole = (differences == np.rint(differences)).all(axis=0) & (np.abs(differences).sum(axis=0) <= _MOST_COUNTED)
    random = np.flatnonzero(~few & ~whole)
    p_values = np.ones(differences.shape[1])
    if random.size:
        p_values[random] = _random(differences[:, random], alternative, seed)
    for pair in np.flatnonzero(~few & whole):
        p_values[pair] = _counted(differences[:, pair], alternative)
    for pair in np.flatnonzero(few):
        p_values[pair] = _exact(differences[:, pair], alternative)
    return tuple(
        SignFlip(
            difference=float(differences[:, pair].sum()),
            informative_turns=int(informative[pair]),
            p_value=float(p_values[pair]),
            exact=bool(few[pair] or whole[pair]),
        )
        for pair in range(differences.shape[1])
    )


def sign_flip_test(differences: Values, *, alternative: Alternative = "two-sided", seed: int = SEED) -> SignFlip:
    """Test one pair; see `sign_flip_tests`.

    Args:
        differences: [T]
        alternative: As there.
        seed: As there.
    """
    return sign_flip_tests(differences[:, None], alternative=alternative, seed=seed)[0]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given: at most 1, and never smaller than an adjusted smaller one."""
    count = len(p_values)
    order = sorted(range(count), key=lambda i: p_values[i])
    adjusted = [1.0] * count
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (count - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def _exact(differences: Values, alternative: Alternative) -> float:
    values = differences[differences != 0]
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return float(_as_extreme(sums, values, alternative).mean())


def _counted(differences: Values, alternative: Alternative) -> float:
    """Share of all 2^k assignments, from the law of a sum of whole numbers by convolution over turns."""
    steps = np.abs(differences[differences != 0]).astype(np.int64)
    # In steps of 2: every sum has the parity of the largest. law[i] is the share of sums 2i - span.
    span = int(steps.sum())
    law = np.zeros(span + 1)
    law[0], reached = 1.0, 0
    for step in steps:
        # The sum so far moves down or up by a step; seen from the lowest sum that means by none or by twice a half.
        law[step : reached + step + 1] += law[: reached + 1].copy()
        law[: reached + step + 1] /= 2
        reached += int(step)
    sums = 2 * np.arange(span + 1) - span
    observed = int(differences.sum())
    extreme = np.abs(sums) >= abs(observed) if alternative == "two-sided" else sums >= observed
    return float(min(law[extreme].sum(), 1.0))


def _random(differences: Values, alternative: Alternative, seed: int) -> Values:
    random = np.random.default_rng(seed)
    hits = np.zeros(differences.shape[1])
    for start in range(0, RANDOM_FLIPS, _BLOCK):
        rows = min(_BLOCK, RANDOM_FLIPS - start)
        signs = random.integers(0, 2, size=(rows, len(differences)), dtype=np.int8).astype(np.float64) * 2 - 1
        sums = signs @ differences
        for pair in range(differences.shape[1]):
            hits[pair] += _as_extreme(sums[:, pair], differences[:, pair], alternative).sum()
    return (hits + 1) / (RANDOM_FLIPS + 1)


def _as_extreme(sums: Values, differences: Values, alternative: Alternative) -> NDArray[np.bool_]:
    # Sums in another order differ in their last bits; an assignment that ties with the observed one must count.
    slack = 1e-12 * float(np.abs(differences).sum())
    observed = float(differences.sum())
    if alternative == "two-sided":
        sums, observed = np.abs(sums), abs(observed)
    extreme: NDArray[np.bool_] = sums >= observed - slack
    return extreme
