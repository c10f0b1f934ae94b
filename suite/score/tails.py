"""Quantiles near the ends of very many values, without ordering those in between: most of what an interval costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from suite.score.turns import Values

_EVERY = 64
"""One value in so many is looked at first, to see where the tails begin."""
_MARGIN = 4.0
"""Standard deviations of a rank in that sample by which a tail is cut too long."""


def tail_quantiles(values: Values, shares: Sequence[float]) -> tuple[float, ...]:
    """What `np.quantile(values, shares)` gives, to the bit; quicker where shares are near 0 or 1.

    Args:
        values: [n], finite, at least one.
        shares: Between 0 and 1.
    """
    sample = np.sort(values[::_EVERY])
    return tuple(_quantile(values, sample, share) for share in shares)


def _quantile(values: Values, sample: Values, share: float) -> float:
    place = (len(values) - 1) * share
    below = math.floor(place)
    rank = share * len(sample)
    slack = _MARGIN * (math.sqrt(rank * (1 - share)) + 1)
    if share < 0.5:
        tail = np.sort(values[values <= sample[min(int(rank + slack), len(sample) - 1)]])
        first = 0
    else:
        tail = np.sort(values[values >= sample[max(int(rank - slack), 0)]])
        first = len(values) - len(tail)
    if not first <= below < first + len(tail) - 1:
        return float(np.quantile(values, share))
    lower, upper = float(tail[below - first]), float(tail[below - first + 1])
    step, part = upper - lower, place - below
    # From the nearer end, as NumPy does.
    return upper - step * (1 - part) if part >= 0.5 else lower + step * part
