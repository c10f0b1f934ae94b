"""An opened capture: its chunks read lazily, and every claim of its index checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import TOP_IDS, CaptureIndex, ChunkEntry, read_index
from suite.capture.rows import BLOCK_ROWS, RowBlock, to_float32
from suite.capture.tensors import TensorFile, open_tensors
from suite.errors import InvalidInput, RunFailed, VerificationFailed
from suite.files import sha256_bytes, sha256_file
from suite.observer import Observer, SilentObserver

RECEIPT_NAME = "receipt.json"
_AGAIN = "delete this capture and run it again"
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeTable:
    """The small columns of a whole capture, in order of position (48 bytes a probe)."""

    positions: NDArray[np.int64]
    """[n]"""
    target_ids: NDArray[np.int64]
    """[n]"""
    row_sha256: NDArray[np.uint8]
    """[n, 32]"""

    @property
    def rows_sha256(self) -> str:
        """SHA-256 over all row hashes in order: equal exactly when every row is."""
        return sha256_bytes(self.row_sha256.tobytes())


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What a stack itself would have chosen at one probe."""

    position: int
    top1: int
    """Lowest id among the best."""
    best_ids: frozenset[int]
    """Ids whose logits equal the best one exactly."""
    p_top1: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """A capture whose index has been read and whose files are there in their full size."""

    folder: Path
    index: CaptureIndex
    index_sha256: str
    """SHA-256 of `index.json` as it lies on disk: the identity of this capture."""

    def open_chunk(self, entry: ChunkEntry) -> TensorFile:
        """The chunk's tensors, with names, dtypes and shapes as the index promises.

        Raises:
            VerificationFailed: the file is truncated or of another shape.
        """
        tensors = open_tensors(self.folder / entry.file)
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.tensors.items()}
        # Rows carry their own best ids; hidden states need those that the stack computed.
        fingerprint = self.index.codec == "hidden" or "top_ids" in found
        wanted = self._layout(entry.num_rows, fingerprint=fingerprint)
        if found != wanted:
            name = next(name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name))
            raise VerificationFailed(
                f"the tensor {name!r} is {_say(found.get(name))}, expected {_say(wanted.get(name))}",
                where=str(tensors.path),
                hint=_AGAIN,
            )
        return tensors

    def _layout(self, count: int, *, fingerprint: bool) -> dict[str, tuple[str, tuple[int, ...]]]:
        dtype = _DTYPES[self.index.dtype]
        top = min(TOP_IDS, self.index.vocab_size)
        layout: dict[str, tuple[str, tuple[int, ...]]] = {
            "rows": (dtype, (count, self.index.row_width)),
            "positions": ("I64", (count,)),
            "target_ids": ("I64", (count,)),
            "row_sha256": ("U8", (count, 32)),
        }
        if fingerprint:
            layout |= {
                "logsumexp": ("F64", (count,)),
                "top_ids": ("I32", (count, top)),
                "top_logits": (dtype, (count, top)),
            }
        return layout

    def probes(self) -> ProbeTable:
        """The small columns of all chunks.

        Raises:
            VerificationFailed: a chunk is truncated or of another shape.
        """
        chunks = [self.open_chunk(entry) for entry in self.index.chunks]
        names = ("positions", "target_ids", "row_sha256")
        return ProbeTable(**{name: np.concatenate([chunk.read(name) for chunk in chunks]) for name in names})

    def choices(self, wanted: NDArray[np.bool_]) -> list[Choice]:
        """What the stack would have chosen at the probes where `wanted` [n] is true, in order.

        Taken from the fingerprint that the stack stored with each row where there is one, else from the row.

        Raises:
            VerificationFailed: a chunk is truncated or of another shape.
        """
        found = []
        first = 0
        for entry in self.index.chunks:
            rows = np.flatnonzero(wanted[first : first + entry.num_rows]).tolist()
            tensors = self.open_chunk(entry) if rows else None
            found += [_choice(tensors, row) for row in rows if tensors is not None]
            first += entry.num_rows
        return found

    def verify(self, *, observer: Observer | None = None) -> None:
        """Re-hash every chunk and check what the index says of it; memory stays at one block of rows.

        For codec `logits` each row is also hashed, counted as finite or not, and its best id compared with the stored
        one.

        Raises:
            VerificationFailed: the first chunk, and position where there is one, that does not hold what is claimed.
        """
        observer = observer or SilentObserver()
        observer.phase("verify capture", total=self.index.num_rows, unit="rows")
        non_finite = 0
        for entry in self.index.chunks:
            path = self.folder / entry.file
            if sha256_file(path) != entry.sha256:
                raise VerificationFailed("its bytes are not those that were captured", where=str(path), hint=_AGAIN)
            tensors = self.open_chunk(entry)
            _check_positions(tensors, entry, self.index)
            if self.index.codec == "logits":
                non_finite += _check_rows(tensors, entry)
            observer.advance(entry.num_rows)
        if self.index.codec == "logits" and non_finite != self.index.non_finite_rows:
            raise VerificationFailed(
                f"{non_finite} rows are not finite, the index says {self.index.non_finite_rows}",
                where=str(self.folder),
                hint=_AGAIN,
            )
        receipt = self.folder / RECEIPT_NAME
        if not receipt.is_file() or sha256_file(receipt) != self.index.receipt_sha256:
            raise VerificationFailed("not the receipt that the index names", where=str(receipt), hint=_AGAIN)

    def require_finite(self) -> None:
        """Refuse a capture with non-finite rows: nothing in it may be quoted.

        Raises:
            RunFailed: how many there are and, where rows are stored, the first chunk and position.
        """
        if not self.index.non_finite_rows:
            return
        raise RunFailed(
            f"{self.index.non_finite_rows} of {self.index.num_rows} rows hold NaN or an infinity{self._first_bad()}",
            where=str(self.folder),
            hint="the stack computes garbage: check its kernels and dtypes; no result is made from such a run",
        )

    def _first_bad(self) -> str:
        if self.index.codec == "logits":
            for block, entry in _blocks_of(self):
                bad = np.flatnonzero(~np.isfinite(to_float32(block.rows)).all(axis=1))
                if bad.size:
                    return f", the first in {entry.file} at position {block.positions[bad[0]]}"
        return ""


def open_capture(folder: Path) -> Capture:
    """Open a complete capture: its index is valid, and every chunk it names is a file of the right size.

    Raises:
        MissingPrerequisite: no complete capture in `folder`.
        InvalidInput: the index cannot be used.
        VerificationFailed: a chunk is missing, truncated or longer than it was.
    """
    index, data = read_index(folder)
    for entry in index.chunks:
        path = folder / entry.file
        if path.is_symlink() or not path.is_file():
            raise VerificationFailed("the chunk is missing", where=str(path), hint=_AGAIN)
        size = path.stat().st_size
        if size != entry.size_bytes:
            raise VerificationFailed(
                f"the chunk has {size:,} bytes, the index says {entry.size_bytes:,}", where=str(path), hint=_AGAIN
            )
    return Capture(folder=folder, index=index, index_sha256=sha256_bytes(data))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRows:
    """The `RowSource` of a `logits` capture: rows as they lie in its chunks."""

    capture: Capture

    def __post_init__(self) -> None:
        if self.capture.index.codec != "logits":
            raise InvalidInput("this capture stores hidden states, not rows", where=str(self.capture.folder))

    @property
    def index(self) -> CaptureIndex:
        """The capture's index."""
        return self.capture.index

    def blocks(self) -> Iterator[RowBlock]:
        """All probes, at most `BLOCK_ROWS` at a time.

        Raises:
            VerificationFailed: a row is no longer the one that was captured.
        """
        for block, entry in _blocks_of(self.capture):
            _require_hashes(block.rows, block.row_sha256, block.positions, where=self.capture.folder / entry.file)
            yield block


def _blocks_of(capture: Capture) -> Iterator[tuple[RowBlock, ChunkEntry]]:
    for entry in capture.index.chunks:
        tensors = capture.open_chunk(entry)
        for start in range(0, entry.num_rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, entry.num_rows)
            block = RowBlock(
                positions=tensors.read("positions", start, stop),
                target_ids=tensors.read("target_ids", start, stop),
                row_sha256=tensors.read("row_sha256", start, stop),
                rows=tensors.read("rows", start, stop),
            )
            yield block, entry


def _check_positions(tensors: TensorFile, entry: ChunkEntry, index: CaptureIndex) -> None:
    positions = tensors.read("positions")
    where = str(tensors.path)
    stuck = np.flatnonzero(positions[1:] <= positions[:-1])
    if stuck.size:
        raise VerificationFailed(
            f"positions do not increase after {int(positions[stuck[0]])}", where=where, hint=_AGAIN
        )
    if (positions[0], positions[-1]) != (entry.first_position, entry.last_position):
        raise VerificationFailed(
            f"positions run from {positions[0]} to {positions[-1]}, "
            f"the index says {entry.first_position} to {entry.last_position}",
            where=where,
            hint=_AGAIN,
        )
    for name in ("target_ids", *(["top_ids"] if "top_ids" in tensors.tensors else [])):
        ids = tensors.read(name)
        if ids.min() < 0 or ids.max() >= index.vocab_size:
            raise VerificationFailed(f"{name} holds an id outside the vocabulary", where=where, hint=_AGAIN)


def _check_rows(tensors: TensorFile, entry: ChunkEntry) -> int:
    """Hash each row and compare its best id; the number of rows that are not finite."""
    non_finite = 0
    for start in range(0, entry.num_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, entry.num_rows)
        rows = tensors.read("rows", start, stop)
        values = to_float32(rows)
        finite = np.atleast_1d(np.isfinite(values).all(axis=1))
        non_finite += int((~finite).sum())
        hashes = tensors.read("row_sha256", start, stop)
        top_ids = tensors.read("top_ids", start, stop) if "top_ids" in tensors.tensors else None
        positions = tensors.read("positions", start, stop)
        _require_hashes(rows, hashes, positions, where=tensors.path)
        for row in range(stop - start):
            if top_ids is not None and finite[row] and int(values[row].argmax()) != int(top_ids[row, 0]):
                where = f"{tensors.path}: position {positions[row]}"
                raise VerificationFailed("the stored best id is not the row's", where=where, hint=_AGAIN)
    return non_finite


def _require_hashes(
    rows: NDArray[Any], hashes: NDArray[np.uint8], positions: NDArray[np.integer[Any]], *, where: Path
) -> None:
    for row, digest, position in zip(rows, hashes, positions, strict=True):
        if hashlib.sha256(row.tobytes()).digest() != digest.tobytes():
            place = f"{where}: position {position}"
            raise VerificationFailed("the row does not match its hash", where=place, hint=_AGAIN)


def _choice(tensors: TensorFile, row: int) -> Choice:
    position = int(tensors.read("positions", row, row + 1)[0])
    if "top_ids" in tensors.tensors:
        ids = tensors.read("top_ids", row, row + 1)[0]
        logits = to_float32(tensors.read("top_logits", row, row + 1))[0].astype(np.float64)
        log_total = float(tensors.read("logsumexp", row, row + 1)[0])
    else:
        logits = to_float32(tensors.read("rows", row, row + 1))[0].astype(np.float64)
        ids = np.arange(len(logits))
        log_total = float(logits.max() + np.log(np.exp(logits - logits.max()).sum()))
    best = ids[logits == logits.max()]
    return Choice(
        position=position,
        top1=int(best.min()),
        best_ids=frozenset(best.tolist()),
        p_top1=float(np.exp(logits.max() - log_total)),
    )


def _say(layout: tuple[str, tuple[int, ...]] | None) -> str:
    return "absent" if layout is None else f"{layout[0]} {list(layout[1])}"
