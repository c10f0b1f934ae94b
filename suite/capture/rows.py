"""Rows as scoring reads them, whatever codec they were stored in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import CaptureIndex, RowDtype
from suite.errors import InvalidInput, MissingPrerequisite

if TYPE_CHECKING:
    from suite.capture.store import Capture

Rows = NDArray[Any]
"""Logits rows [n, V] as stored: float32, float16, or bfloat16 as its 16 bits in uint16."""

BLOCK_ROWS = 64
"""Rows per block: at a vocabulary of 248,320 in BF16 a block is 32 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBlock:
    """Consecutive probes with their logits rows."""

    positions: NDArray[np.int64]
    """[n], strictly increasing, also across blocks."""
    target_ids: NDArray[np.int64]
    """[n], the recorded token at position + 1."""
    row_sha256: NDArray[np.uint8]
    """[n, 32], SHA-256 of each row's little-endian bytes in the stored dtype, padding cut."""
    rows: Rows
    """[n, V], see `Rows`."""
    replayed: NDArray[np.bool_] | None = None
    """[n], true where the row was recomputed on other hardware and is not the captured one bit for bit; None: nowhere.
    Its best logits are the captured ones all the same (see `suite.run.elsewhere`)."""
    overruled: NDArray[np.bool_] | None = None
    """[n], true where the captured best logits have another best id than the recomputed row had; None: nowhere."""

    def cut(self, start: int, stop: int) -> RowBlock:
        """The probes [start, stop) of this block, without copying."""
        return RowBlock(
            positions=self.positions[start:stop],
            target_ids=self.target_ids[start:stop],
            row_sha256=self.row_sha256[start:stop],
            rows=self.rows[start:stop],
            replayed=None if self.replayed is None else self.replayed[start:stop],
            overruled=None if self.overruled is None else self.overruled[start:stop],
        )


class RowSource(Protocol):
    """Gives the logits rows of one capture in order of position, a few blocks at a time."""

    @property
    def index(self) -> CaptureIndex:
        """The capture's index."""

    def blocks(self) -> Iterator[RowBlock]:
        """All probes of the capture, each exactly once, in blocks of any size above zero.

        May be called again for a second pass. A source that recomputes rows must check them against `row_sha256`
        of the capture and, where they differ, raise or mark them as `replayed`.
        """


RowFactory = Callable[["Capture"], RowSource]
"""Opens the rows of a `hidden` capture by replaying them in the stack's own environment."""


def stored_dtype(rows: Rows) -> RowDtype:
    """Name of the dtype in which `rows` are stored (uint16 holds the bits of bfloat16)."""
    names: dict[str, RowDtype] = {"uint16": "bfloat16", "float16": "float16", "float32": "float32"}
    if rows.dtype.name not in names:
        raise InvalidInput(f"rows of dtype {rows.dtype} cannot be scored; use bfloat16 bits, float16 or float32")
    return names[rows.dtype.name]


def to_float32(rows: Rows) -> NDArray[np.float32]:
    """The same numbers as float32, exactly; float32 input is returned as it is.

    Args:
        rows: Any shape, in one of the dtypes of `Rows`.
    """
    if stored_dtype(rows) == "bfloat16":
        return (rows.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return rows.astype(np.float32, copy=False)


def open_rows(capture: Capture, *, replay: RowFactory | None = None) -> RowSource:
    """The rows of `capture`: read for codec `logits`, recomputed by `replay` for codec `hidden`.

    Raises:
        MissingPrerequisite: a `hidden` capture, and no `replay`.
    """
    from suite.capture.store import StoredRows

    if capture.index.codec == "logits":
        return StoredRows(capture=capture)
    if replay is None:
        raise MissingPrerequisite(
            "the capture holds hidden states, whose rows only its own stack can recompute",
            where=str(capture.folder),
            hint="run this where that stack's interpreter is installed",
        )
    return replay(capture)


def aligned(first: RowSource, second: RowSource) -> Iterator[tuple[RowBlock, RowBlock]]:
    """Blocks of both sources cut to the same probes, whatever their chunk boundaries are.

    Raises:
        InvalidInput: the positions or recorded tokens of the two differ, or one ends before the other.
    """
    ours, theirs = first.blocks(), second.blocks()
    a, b = next(ours, None), next(theirs, None)
    while a is not None and b is not None:
        count = min(len(a.positions), len(b.positions))
        left, right = a.cut(0, count), b.cut(0, count)
        for name in ("positions", "target_ids"):
            differing = np.flatnonzero(getattr(left, name) != getattr(right, name))
            if differing.size:
                at = int(left.positions[differing[0]])
                raise InvalidInput(f"the two captures differ in {name}, first at position {at}")
        yield left, right
        a = a.cut(count, len(a.positions)) if count < len(a.positions) else next(ours, None)
        b = b.cut(count, len(b.positions)) if count < len(b.positions) else next(theirs, None)
    if a is not None or b is not None:
        raise InvalidInput("the two captures differ in positions: one ends before the other")
