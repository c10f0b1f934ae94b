"""Rows replayed on another machine than the one that captured them: what is kept, and what is only near.

A matrix product's bits depend on the processor. A capture therefore stores with each row its SHA-256, its 64 best ids
and logits and its logsumexp. Where a replayed row has another hash, its best logits are put back as they were captured
and no other id is left above them: top-1, ties, margin and the rank of every stored id are then the captured ones. The
tail stays as replayed, so probabilities, entropy and divergences are near and not exact; such rows are marked. How
near is checked against the stored logsumexp, and a row that is not is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import RowBlock, Rows, stored_dtype, to_float32
from suite.capture.store import Capture
from suite.errors import VerificationFailed

DRIFT_ULPS = 4.0
"""How far a replayed logit may lie from the captured one, in units of the spacing at the row's largest magnitude."""
DRIFT_NATS = 0.02
"""How far the logsumexp may move by the replayed tail."""

_MANTISSA_BITS = {"bfloat16": 7, "float16": 10, "float32": 23}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """What a capture stores beside its rows, of a whole capture."""

    top_ids: NDArray[np.int32]
    """[n, 64], best first."""
    top_logits: Rows
    """[n, 64], in the stored dtype."""
    logsumexp: NDArray[np.float64]
    """[n]"""


def fingerprint_of(capture: Capture) -> Fingerprint:
    """The stored best ids and logits and logsumexp of all rows (about 400 bytes a row).

    Raises:
        VerificationFailed: a chunk is damaged.
    """
    chunks = [capture.open_chunk(entry) for entry in capture.index.chunks]

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([chunk.read(name) for chunk in chunks])

    return Fingerprint(top_ids=column("top_ids"), top_logits=column("top_logits"), logsumexp=column("logsumexp"))


def settle(block: RowBlock, facts: Fingerprint, first: int, *, where: str) -> RowBlock:
    """Compare replayed rows with the captured ones, and restore the best logits of those that differ.

    Args:
        block: Replayed rows; `row_sha256` are the captured hashes.
        facts: Of the whole capture.
        first: Index of the block's first row in the capture.
        where: The capture, for messages.

    Raises:
        VerificationFailed: a replayed row is not near the captured one: another head, or other hidden states.
    """
    hashes = [hashlib.sha256(row.tobytes()).digest() for row in block.rows]
    differs = np.array([h != stored.tobytes() for h, stored in zip(hashes, block.row_sha256, strict=True)], dtype=bool)
    if not differs.any():
        return block
    rows, overruled = block.rows.copy(), np.zeros(len(block.rows), dtype=bool)
    for row in np.flatnonzero(differs):
        at = first + int(row)
        overruled[row] = np.argmax(to_float32(rows[row])) != facts.top_ids[at][0]
        try:
            rows[row] = _restored(rows[row], facts.top_ids[at], facts.top_logits[at], float(facts.logsumexp[at]))
        except _NotNear as error:
            raise VerificationFailed(
                f"position {int(block.positions[row])}: the replayed row is not near the captured one ({error})",
                where=where,
                hint="the head or the hidden states are not those of the capture: pull its pack again",
            ) from error
    return replace(block, rows=rows, replayed=differs, overruled=overruled)


class _NotNear(Exception):
    pass


def _restored(row: Rows, ids: NDArray[np.int32], best: Rows, logsumexp: float) -> Rows:
    replayed, captured = to_float32(row), to_float32(best)
    if not (np.isfinite(replayed).all() and np.isfinite(captured).all()):
        raise _NotNear("it is not finite")
    if len(np.unique(ids)) != len(ids) or (np.diff(captured) > 0).any():
        raise _NotNear("the stored best logits are not in order")
    spacing = 2.0 ** (np.floor(np.log2(max(float(np.abs(replayed).max()), 1e-30))) - _MANTISSA_BITS[stored_dtype(row)])
    drift = float(np.abs(replayed[ids] - captured).max()) / spacing
    if drift > DRIFT_ULPS:
        raise _NotNear(f"a best logit is {drift:.1f} ULP away")
    result = row.copy()
    # Among logits equal to the last one kept, which ids were kept is not defined: the tail may equal it.
    result[replayed > captured[-1]] = best[-1]
    result[ids] = best
    values = to_float32(result).astype(np.float64)
    total = float(values.max() + np.log(np.exp(values - values.max()).sum()))
    if not abs(total - logsumexp) <= DRIFT_NATS:
        raise _NotNear(f"its logsumexp is {total:.4f}, stored is {logsumexp:.4f}")
    return result
