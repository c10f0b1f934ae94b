"""At which positions a row is kept, and at which the replay is probed.

The host plans with `suite.manifest.positions`; both must always agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

PROBE_ROWS = 64
PROBE_GROUPS = 4


def wanted_positions(
    *, path: str, stride: int | None, ranges: Iterable[tuple[int, int]], num_tokens: int, trusted_until: int = 0
) -> np.ndarray[Any, Any]:
    """Boolean `[num_tokens]`: at which positions a row is kept.

    Prefill: p % stride == stride - 1, and for each token range [a, b) the positions a - 1 to b - 2, which predict its
    tokens. Decode: a to b - 2, since the range's first token is chosen by prefill kernels. The last token never has a
    row. Positions before `trusted_until`, whose rows an interrupted start has written, are left out.
    """
    wanted = np.zeros(num_tokens, bool)
    if stride is not None and path == "prefill":
        wanted[stride - 1 :: stride] = True
    before = 1 if path == "prefill" else 0
    for a, b in ranges:
        wanted[max(a - before, 0) : max(b - 1, 0)] = True
    wanted[-1:] = False
    wanted[:trusted_until] = False
    return wanted


def probe_sample(positions: np.ndarray[Any, Any]) -> frozenset[int]:
    """The positions whose live logits the replay probe compares: the first, the last and evenly spread groups.

    Neighbours share one matrix product, so that the probe costs a few products and not one per row.
    """
    if len(positions) <= PROBE_ROWS:
        return frozenset(positions.tolist())
    group = PROBE_ROWS // PROBE_GROUPS
    starts = np.linspace(0, len(positions) - group, PROBE_GROUPS).astype(int)
    return frozenset(int(p) for start in starts for p in positions[start : start + group])
