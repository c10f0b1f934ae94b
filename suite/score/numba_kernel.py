"""The compiled implementation of the metrics on a CPU: Numba, several threads, FP64.

Numba is optional (`pip install 'suite[fast]'`); `default_kernel` falls back to NumPy, a quarter as fast on
one core and no faster on many, and says so.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import Rows, stored_dtype, to_float32
from suite.observer import Observer
from suite.score.interface import KERNEL_COLUMNS, Columns, Kernel, check_shapes, empty_columns
from suite.score.numpy_kernel import MANTISSA_BITS, SMALLEST_NORMAL, NumpyKernel
from suite.stack.home import suite_home

_FLOAT_COLUMNS = tuple(name for name, kind in KERNEL_COLUMNS.items() if kind is np.float64)
_ROWS_AT_A_TIME = 4
"""Pairs that a thread takes at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NumbaKernel:
    """Reads BF16 bits directly; a row's scores do not depend on the number of threads."""

    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    name: str = "numba"

    def score_block(self, reference: Rows, candidate: Rows | None, target_ids: NDArray[np.int64]) -> Columns:
        """See `suite.score.interface.Kernel`."""
        check_shapes(reference, candidate, target_ids)
        loops = _loops()
        table = _exponentials()
        count = len(reference)
        ours = _side(reference)
        theirs = ours if candidate is None else _side(candidate)
        targets = np.ascontiguousarray(target_ids, dtype=np.int64)
        floats = np.full((count, len(_FLOAT_COLUMNS)), np.nan)
        integers = np.zeros((count, 6), dtype=np.int32)
        integers[:, :2] = -1

        def score(start: int) -> None:
            stop = min(start + _ROWS_AT_A_TIME, count)
            loops.score_rows(start, stop, *ours, *theirs, targets, table, floats, integers)

        starts = range(0, count, _ROWS_AT_A_TIME)
        if self.threads > 1 and len(starts) > 1:
            with ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="suite-score") as pool:
                list(pool.map(score, starts))
        else:
            for start in starts:
                score(start)
        return _columns(floats, integers)


def default_kernel(observer: Observer | None = None) -> Kernel:
    """The fastest kernel that this installation has; tells the observer if that is the slow one."""
    if importlib.util.find_spec("numba") is not None:
        return NumbaKernel()
    if observer is not None:
        observer.note("scoring with NumPy, which is slow: pip install 'suite[fast]' brings the compiled kernel")
    return NumpyKernel()


def _side(rows: Rows) -> tuple[Any, ...]:
    dtype = stored_dtype(rows)
    whole = rows if dtype == "bfloat16" else to_float32(rows)
    bits = np.ascontiguousarray(whole).view(np.uint16 if dtype == "bfloat16" else np.uint32)
    # Always read-only: one compiled version serves rows from files and from memory.
    bits.flags.writeable = False
    shift = np.uint32(16 if dtype == "bfloat16" else 0)
    return bits, shift, SMALLEST_NORMAL[dtype], 4.0 ** -MANTISSA_BITS[dtype]


def _columns(floats: NDArray[np.float64], integers: NDArray[np.int32]) -> Columns:
    columns = empty_columns(len(floats))
    for i, name in enumerate(_FLOAT_COLUMNS):
        columns[name][:] = floats[:, i]
    a, b, our_finite, their_finite, tied, rank = integers.T
    columns["ref_top1"][:], columns["cand_top1"][:] = a, b
    columns["finite_ref"][:], columns["finite_cand"][:] = our_finite, their_finite
    columns["flip"][:], columns["tied"][:] = a != b, tied
    columns["rank_ref_top1_in_cand"][:] = rank
    return columns


@functools.cache
def _exponentials() -> NDArray[np.float64]:
    table: NDArray[np.float64] = _loops().exponentials_of_bfloat16()
    return table


def _loops() -> ModuleType:
    """The compiled loops; what they compile to is kept below the state folder, if that can be written."""
    import numba

    if not numba.config.CACHE_DIR:
        folder = suite_home() / "numba"
        if _can_write(folder):
            numba.config.CACHE_DIR = str(folder)
    from suite.score import numba_loops

    return numba_loops


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
