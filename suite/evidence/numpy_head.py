"""Rows of a `hidden` capture recomputed with NumPy, where no interpreter with torch is at hand.

Products are summed in float32 and rounded once, as a BF16 matrix product is; the order of the sum is another, so that
bits may differ. Rows that do are settled as for any replay on another machine (`suite.run.elsewhere`): the best logits
that the capture stored are put back, and a row that is not near is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import CaptureIndex
from suite.capture.rows import RowBlock, Rows, to_float32
from suite.capture.store import Capture
from suite.capture.tensors import TensorFile, open_tensors
from suite.errors import MissingPrerequisite, VerificationFailed
from suite.files import sha256_file
from suite.reference.check import check_heads
from suite.reference.store import head_file
from suite.run.elsewhere import fingerprint_of, settle

_BLOCK_ROWS = 64
_SLICE_BYTES = 128 << 20
"""Of the head, as float32, at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NumpyRows:
    """A `RowSource` over a `hidden` capture and its head."""

    capture: Capture
    heads: Path
    """Folder with the head's files, by hash."""

    @property
    def index(self) -> CaptureIndex:
        """The capture's index."""
        return self.capture.index

    def blocks(self) -> Iterator[RowBlock]:
        """All probes in order, in blocks of up to 64 rows.

        Raises:
            MissingPrerequisite: a head file is absent.
            VerificationFailed: a head file is no head or was changed, or a row is not near the captured one.
        """
        head = open_head(self.index, self.heads)
        table, facts = self.capture.probes(), fingerprint_of(self.capture)
        first = 0
        for entry in self.index.chunks:
            chunk = self.capture.open_chunk(entry)
            for start in range(0, entry.num_rows, _BLOCK_ROWS):
                rows = head.logits(chunk.read("rows", start, min(start + _BLOCK_ROWS, entry.num_rows)))
                part = slice(first, first + len(rows))
                block = RowBlock(
                    positions=table.positions[part],
                    target_ids=table.target_ids[part],
                    row_sha256=table.row_sha256[part],
                    rows=rows,
                )
                yield settle(block, facts, first, where=str(self.capture.folder))
                first += len(rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumpyHead:
    """An output head whose files are read slice by slice."""

    shards: tuple[TensorFile, ...]
    vocab_size: int
    dtype: str
    """Of the projection and its logits."""
    scale: float
    soft_cap: float | None

    def logits(self, hidden: Rows) -> Rows:
        """Logits [n, vocab_size] of hidden states [n, width], rounded to the projection's dtype at every step."""
        states = _as_float32(_rounded(to_float32(hidden), self.dtype))
        found = np.concatenate([part for shard in self.shards for part in self._products(states, shard)], axis=1)
        found = found[:, : self.vocab_size]
        if self.soft_cap is not None:
            scaled = _as_float32(_rounded(_as_float32(found) / np.float32(self.soft_cap), self.dtype))
            tanh = _as_float32(_rounded(np.tanh(scaled), self.dtype))
            found = _rounded(tanh * np.float32(self.soft_cap), self.dtype)
        if self.scale != 1.0:
            found = _rounded(_as_float32(found) * np.float32(self.scale), self.dtype)
        return np.ascontiguousarray(found)

    def _products(self, states: NDArray[np.float32], shard: TensorFile) -> Iterator[Rows]:
        count, width = shard.tensors["weight"].shape
        step = max(1, _SLICE_BYTES // (4 * width))
        for start in range(0, count, step):
            stop = min(start + step, count)
            product = states @ _as_float32(shard.read("weight", start, stop)).T
            if "bias" in shard.tensors:
                product += _as_float32(shard.read("bias", start, stop))
            yield _rounded(product, self.dtype)


def open_head(index: CaptureIndex, heads: Path) -> NumpyHead:
    """The head of a `hidden` capture, its files hashed and checked.

    Raises:
        MissingPrerequisite: a file is absent.
        VerificationFailed: a file was changed, or is no head of this capture.
    """
    assert index.head is not None
    for sha256 in index.head.sha256s:
        path = head_file(heads, sha256)
        if not path.is_file():
            raise MissingPrerequisite(
                "the head of this capture is absent", where=str(path), hint="put the head's file there, or give --heads"
            )
        if sha256_file(path) != sha256:
            raise VerificationFailed("the head's bytes are not those of its name", where=str(path))
    arithmetic = check_heads(index, lambda sha256: head_file(heads, sha256))
    return NumpyHead(
        shards=tuple(open_tensors(head_file(heads, sha256)) for sha256 in index.head.sha256s),
        vocab_size=index.vocab_size,
        dtype=arithmetic["dtype"],
        scale=float(arithmetic["scale"]),
        soft_cap=None if arithmetic["soft_cap"] is None else float(arithmetic["soft_cap"]),
    )


def _as_float32(values: Rows) -> NDArray[np.float32]:
    return values if values.dtype == np.float32 else to_float32(values)


def _rounded(values: NDArray[np.float32], dtype: str) -> Rows:
    """To the nearest number of `dtype`, ties to even; bfloat16 as its bits in uint16."""
    if dtype == "float32":
        return values
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    bits: NDArray[Any] = values.view(np.uint32)
    up = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    broken = np.isnan(values)
    return np.where(broken, np.uint16(0x7FC0), up) if broken.any() else up
