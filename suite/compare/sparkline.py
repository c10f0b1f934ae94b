"""Counts as a row of blocks."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_NONE = "·"


def sparkline(counts: Sequence[int], *, top: int) -> str:
    """One sign per count: a dot for 0, else a block whose height is the count's share of `top`.

    Args:
        counts: From 0 to `top`.
        top: What a full block stands for; 0 only where all counts are.
    """
    return "".join(_BLOCKS[(count * len(_BLOCKS) - 1) // top] if count else _NONE for count in counts)
