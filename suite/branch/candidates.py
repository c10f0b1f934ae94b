"""The best tokens of a stack at a fork, from the best logits and the logsumexp that its capture keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from suite.branch.schema import TopToken
from suite.capture.rows import to_float32
from suite.capture.store import Capture

TOP_TOKENS = 16


def top_tokens(capture: Capture, rows: Sequence[int], text_of: Callable[[int], str]) -> list[tuple[TopToken, ...]]:
    """The `TOP_TOKENS` best tokens at each of the given probes.

    Args:
        capture: Of either side.
        rows: Numbers of probes, in order.
        text_of: Text of one token id.

    Raises:
        VerificationFailed: a chunk is truncated or of another shape.
    """
    found = []
    first = 0
    for entry in capture.index.chunks:
        inside = [row - first for row in rows if first <= row < first + entry.num_rows]
        tensors = capture.open_chunk(entry) if inside else None
        for row in inside if tensors is not None else []:
            assert tensors is not None
            if "top_ids" in tensors.tensors:
                ids = tensors.read("top_ids", row, row + 1)[0]
                logits = to_float32(tensors.read("top_logits", row, row + 1))[0].astype(np.float64)
                total = float(tensors.read("logsumexp", row, row + 1)[0])
            else:
                ids, logits, total = _best(to_float32(tensors.read("rows", row, row + 1))[0].astype(np.float64))
            best = zip(ids[:TOP_TOKENS].tolist(), logits[:TOP_TOKENS].tolist(), strict=True)
            found.append(tuple(TopToken(id=i, text=text_of(i), p=min(1.0, float(np.exp(x - total)))) for i, x in best))
        first += entry.num_rows
    return found


def _best(row: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Ids and logits in the order in which captures keep them: descending, the lowest id first among equals."""
    ids = np.argsort(-row, kind="stable")
    peak = row[ids[0]]
    return ids, row[ids], float(peak + np.log(np.exp(row - peak).sum()))
