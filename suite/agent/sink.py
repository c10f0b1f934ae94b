"""Rows on their way to disk: a bounded queue, one writer thread, and chunk files that are whole or absent."""

from __future__ import annotations

import errno
import hashlib
import os
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from suite.agent.rows import row_bytes, row_facts

_BUFFERS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkFile:
    """One written chunk."""

    file: str
    sha256: str
    size_bytes: int
    num_rows: int
    first_position: int
    last_position: int


def save_chunk(path: Path, tensors: dict[str, torch.Tensor]) -> tuple[str, int]:
    """Write one safetensors file to a temporary name and rename it; return its SHA-256 and size in bytes."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        save_file(tensors, str(temporary))
        data = hashlib.sha256()
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
            while block := stream.read(1 << 22):
                data.update(block)
        size = temporary.stat().st_size
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return data.hexdigest(), size


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, ours or the safetensors library's, says that the disk is full."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "os error 28" in str(error).lower()


class RowSink:
    """Takes rows from the engine's thread without making it wait, and writes them in chunks.

    Rows on a GPU are copied on a stream of their own into pinned buffers; at most `_BUFFERS` blocks are in flight, so
    memory does not grow with the number of rows.
    """

    def __init__(
        self,
        folder: Path,
        *,
        tokens: np.ndarray[Any, Any],
        chunk_rows: int,
        kept: Sequence[ChunkFile] = (),
        compare: bool = False,
        facts: bool = True,
    ) -> None:
        """Start the writer.

        Args:
            folder: Where chunks are written.
            tokens: All token ids of the workload.
            chunk_rows: Rows per chunk.
            kept: Chunks that stay as an interrupted start left them.
            compare: The next chunk is on disk too, and must come out the same.
            facts: Rows are logits, whose facts are stored beside them; hidden states get them afterwards.
        """
        self.folder = folder
        self.chunks: list[ChunkFile] = list(kept)
        self.non_finite_rows = 0
        self.num_rows = sum(chunk.num_rows for chunk in kept)
        self.busy_seconds = 0.0
        self._tokens = tokens
        self._chunk_rows = chunk_rows
        self._compare = compare
        self._facts = facts
        self._error: BaseException | None = None
        self._queue: queue.Queue[tuple[torch.Tensor, Any, np.ndarray[Any, Any]] | None] = queue.Queue(_BUFFERS)
        self._rows: torch.Tensor | None = None
        self._positions = np.empty(chunk_rows, np.int64)
        self._filled = 0
        self._stream: Any = None
        self._thread = threading.Thread(target=self._run, name="suite-writer", daemon=True)
        self._thread.start()

    def push(self, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        """Queue `rows[: len(positions)]`; on the CPU the caller must not write to `rows` again."""
        if self._error is not None:
            raise self._error
        rows = rows[: len(positions)]
        if not rows.is_cuda:
            self._queue.put((rows, None, positions))
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(rows.device)
        self._stream.wait_stream(torch.cuda.current_stream(rows.device))
        with torch.cuda.stream(self._stream):
            host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
            host.copy_(rows, non_blocking=True)
            ready = torch.cuda.Event()
            ready.record(self._stream)
        rows.record_stream(self._stream)
        self._queue.put((host, ready, positions))

    def close(self) -> None:
        """Write what is left and stop.

        Raises:
            OSError: the writer failed, on a full disk for instance.
        """
        self._queue.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        _use_all_cores()
        while True:
            item = self._queue.get()
            started = time.perf_counter()
            try:
                if item is None:
                    if self._error is None:
                        self._flush()
                    return
                if self._error is None:
                    rows, ready, positions = item
                    if ready is not None:
                        ready.synchronize()
                    self._add(rows, positions)
            except BaseException as error:  # noqa: BLE001 - reported to the engine's thread by push() and close()
                self._error = error
                if item is None:
                    return
            finally:
                self.busy_seconds += time.perf_counter() - started

    def _add(self, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        if self._rows is None:
            self._rows = torch.empty((self._chunk_rows, rows.shape[1]), dtype=rows.dtype)
        done = 0
        while done < len(rows):
            take = min(len(rows) - done, self._chunk_rows - self._filled)
            self._rows[self._filled : self._filled + take] = rows[done : done + take]
            self._positions[self._filled : self._filled + take] = positions[done : done + take]
            self._filled += take
            done += take
            if self._filled == self._chunk_rows:
                self._flush()

    def _flush(self) -> None:
        if not self._filled or self._rows is None:
            return
        rows, positions = self._rows[: self._filled], self._positions[: self._filled].copy()
        name = chunk_name(len(self.chunks))
        finite = torch.isfinite(rows).all(dim=1)
        self.non_finite_rows += int((~finite).sum())
        tensors = {
            "rows": rows,
            "positions": torch.from_numpy(positions),
            "target_ids": torch.from_numpy(self._tokens[positions + 1].astype(np.int64)),
        }
        if self._facts:
            tensors |= row_facts(rows)
        path = self.folder / name
        if self._compare:
            _check_same(path, tensors)
            self._compare = False
        sha256, size = save_chunk(path, tensors)
        self.chunks.append(
            ChunkFile(
                file=name,
                sha256=sha256,
                size_bytes=size,
                num_rows=self._filled,
                first_position=int(positions[0]),
                last_position=int(positions[-1]),
            )
        )
        self.num_rows += self._filled
        self._filled = 0


class NotRepeatable(Exception):
    """After a restart a row differs from the one the interrupted start had written."""


def chunk_name(index: int) -> str:
    """File name of the chunk with this index."""
    return f"chunk-{index:05d}.safetensors"


def read_whole_chunks(folder: Path) -> list[ChunkFile]:
    """The chunks an interrupted start left behind, in order. A chunk file that exists is whole: it was renamed."""
    chunks: list[ChunkFile] = []
    while (path := folder / chunk_name(len(chunks))).is_file():
        with safe_open(str(path), framework="pt") as file:
            positions = file.get_tensor("positions")
        chunks.append(
            ChunkFile(
                file=path.name,
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                size_bytes=path.stat().st_size,
                num_rows=len(positions),
                first_position=int(positions[0]),
                last_position=int(positions[-1]),
            )
        )
    return chunks


def _check_same(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    with safe_open(str(path), framework="pt") as file:
        same = torch.equal(file.get_tensor("positions"), tensors["positions"])
        if not same or not np.array_equal(row_bytes(file.get_tensor("rows")), row_bytes(tensors["rows"])):
            raise NotRepeatable(path.name)


def _use_all_cores() -> None:
    """The engine may have pinned its thread to one core; the writer must not share it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
