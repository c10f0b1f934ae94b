"""Facts about logits rows that are kept beside them: hash, best logits, logsumexp."""

from __future__ import annotations

import functools
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

TOP_COUNT = 64
_BLOCK_ROWS = 64
_HASHERS = 8
_CPU_BLOCK_ROWS = 8
"""FP64 copies of more rows than the caches hold cost ten times their arithmetic."""


def row_bytes(rows: torch.Tensor) -> np.ndarray[Any, Any]:
    """`[n, width]` rows on the CPU as `[n, width * itemsize]` bytes; no copy if they are contiguous."""
    data: np.ndarray[Any, Any] = rows.contiguous().view(torch.uint8).numpy()
    return data


def row_hashes(rows: torch.Tensor) -> torch.Tensor:
    """SHA-256 of each row's little-endian bytes, as uint8 `[n, 32]`."""
    data = row_bytes(rows)
    pool = _hashers()
    digests = b"".join(map(_digest, data) if pool is None else pool.map(_digest, data))
    return torch.frombuffer(bytearray(digests), dtype=torch.uint8).view(len(data), 32)


def _digest(row: np.ndarray[Any, Any]) -> bytes:
    return hashlib.sha256(row.data).digest()


@functools.cache
def _hashers() -> ThreadPoolExecutor | None:
    """Threads that hash side by side; None on a machine whose cores the engine needs."""
    spare = (os.cpu_count() or 1) // 2
    return None if spare < 2 else ThreadPoolExecutor(min(spare, _HASHERS), "suite-hash", initializer=use_all_cores)


def use_all_cores() -> None:
    """Let this thread run on every core: the engine may have pinned the one that began it to its own."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def row_facts(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """Facts of `[n, V]` logits, on the CPU.

    Returns:
        `row_sha256` uint8 `[n, 32]`, `logsumexp` float64 `[n]`, `top_ids` int32 `[n, 64]`, `top_logits` `[n, 64]`.
    """
    facts = {name: values.cpu() for name, values in number_facts(logits).items()}
    hashes = [row_hashes(logits[start : start + _BLOCK_ROWS].cpu()) for start in range(0, len(logits), _BLOCK_ROWS)]
    return {"row_sha256": torch.cat(hashes)} | facts


def number_facts(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """The facts that are numbers, where the logits lie: `logsumexp`, `top_ids` and `top_logits` as in `row_facts`."""
    parts: dict[str, list[torch.Tensor]] = {"logsumexp": [], "top_ids": [], "top_logits": []}
    block_rows = _BLOCK_ROWS if logits.is_cuda else _CPU_BLOCK_ROWS
    for start in range(0, len(logits), block_rows):
        block = logits[start : start + block_rows]
        ids, values = top_logits(block)
        parts["logsumexp"].append(torch.logsumexp(block.double(), dim=1))
        parts["top_ids"].append(ids)
        parts["top_logits"].append(values)
    return {name: torch.cat(blocks) for name, blocks in parts.items()}


def finite_rows(rows: torch.Tensor) -> torch.Tensor:
    """Which of `[n, width]` rows hold no NaN and no infinity, bool `[n]`; either reaches a row's least or largest."""
    least, largest = torch.aminmax(rows, dim=1)
    return least.isfinite() & largest.isfinite()


def num_non_finite_rows(rows: torch.Tensor) -> int:
    """How many of `[n, width]` rows hold a NaN or an infinity."""
    return int((~finite_rows(rows)).sum())


def top_logits(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The best `TOP_COUNT` ids (int32) and logits of each row, best first, the lowest id first among equals.

    Among logits equal to the last one kept, which ids are kept is not defined.
    """
    values, ids = torch.topk(logits, min(TOP_COUNT, logits.shape[1]), dim=1)
    by_id = torch.argsort(ids, dim=1)
    values, ids = values.gather(1, by_id), ids.gather(1, by_id)
    best_first = torch.argsort(values, dim=1, descending=True, stable=True)
    return ids.gather(1, best_first).to(torch.int32), values.gather(1, best_first)
