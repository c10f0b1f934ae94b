"""When two captures may be compared at all."""

from __future__ import annotations

from suite.capture.index import CaptureIndex
from suite.errors import InvalidInput

COMPARED_KEYS = ("tokens_sha256", "num_tokens", "path", "vocab_size", "num_rows")
"""What must be equal; the positions themselves are compared as rows are read."""


def differing_keys(reference: CaptureIndex, candidate: CaptureIndex) -> list[str]:
    """Keys of `COMPARED_KEYS` in which two indexes differ, then `positions` if their chunks show it."""
    keys = [key for key in COMPARED_KEYS if getattr(reference, key) != getattr(candidate, key)]
    ends = [(index.chunks[0].first_position, index.chunks[-1].last_position) for index in (reference, candidate)]
    return keys + (["positions"] if ends[0] != ends[1] else [])


def require_comparable(reference: CaptureIndex, candidate: CaptureIndex) -> None:
    """Refuse two captures of other tokens, another path, other positions or another vocabulary.

    Raises:
        InvalidInput: every differing key, with both values.
    """
    keys = differing_keys(reference, candidate)
    if not keys:
        return
    told = ", ".join(
        f"{key} ({getattr(reference, key)} and {getattr(candidate, key)})" if hasattr(reference, key) else key
        for key in keys
    )
    raise InvalidInput(
        f"the two captures cannot be compared: they differ in {told}",
        hint="use the same workload, capture path and positions on both sides",
    )
