"""Rows on their way to disk: a bounded queue, one writer thread, and chunk files that are whole or absent."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from suite.agent.chunks import ChunkFile, chunk_name, record_chunk
from suite.agent.events import AgentFailure
from suite.agent.rows import finite_rows, num_non_finite_rows, number_facts, row_bytes, row_hashes, use_all_cores
from suite.agent.tensors import write_tensors

_BLOCKS = 8
_PINNED = 4
_SAVING = max(1, min(4, (os.cpu_count() or 1) // 3))
"""Chunks that are hashed and written while the next one fills."""

FINITE = "finite"
"""Among the numbers of rows that come with them: which rows are finite. Counted, and not stored."""


def save_chunk(
    folder: Path, name: str, tensors: dict[str, torch.Tensor], *, non_finite_rows: int | None = None
) -> ChunkFile:
    """Write one chunk to a temporary name, note its hash in the journal, and rename it.

    Args:
        folder: The capture's.
        name: Of the file.
        tensors: As they are stored.
        non_finite_rows: None: those among the chunk's own rows, which are logits.

    Raises:
        OSError: the disk is full, for instance; nothing is left behind.
    """
    path = folder / name
    temporary = folder / f".{name}.tmp"
    positions = tensors["positions"]
    try:
        sha256, size_bytes = write_tensors(temporary, tensors)
        chunk = ChunkFile(
            file=name,
            sha256=sha256,
            size_bytes=size_bytes,
            num_rows=len(positions),
            first_position=int(positions[0]),
            last_position=int(positions[-1]),
            non_finite_rows=num_non_finite_rows(tensors["rows"]) if non_finite_rows is None else non_finite_rows,
        )
        record_chunk(folder, chunk)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return chunk


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    """Rows on their way to the writer."""

    rows: torch.Tensor
    positions: np.ndarray[Any, Any]
    numbers: dict[str, torch.Tensor] | None
    ready: Any = None
    """CUDA event after which `rows` and `numbers` hold what was copied."""
    buffer: torch.Tensor | None = None
    """The pinned buffer to give back."""


class RowSink:
    """Takes rows from the engine's thread without making it wait, and writes them in chunks.

    Rows on a GPU are copied on a stream of their own into pinned buffers, which are used again: at most `_PINNED` of
    them, and `_BLOCKS` blocks on a CPU, are in flight, so memory does not grow with the number of rows.
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
        self.num_rows = sum(chunk.num_rows for chunk in kept)
        self.non_finite_rows = sum(chunk.non_finite_rows for chunk in kept)
        self._named = len(kept)
        self.busy_seconds = 0.0
        self.span_seconds = 0.0
        """From the first rows pushed until the last were on disk."""
        self._first_push: float | None = None
        self.error: BaseException | None = None
        """What stopped the writer. The engine goes on until somebody looks: ranks must not part company in a step."""
        self._tokens = tokens
        self._chunk_rows = chunk_rows
        self._compare = compare
        self._facts = facts
        self._last_position = kept[-1].last_position if kept else -1
        self._queue: queue.Queue[_Block | None] = queue.Queue(_BLOCKS)
        self._pinned: queue.Queue[torch.Tensor] = queue.Queue()
        self._num_pinned = 0
        self._chunk_facts: list[dict[str, torch.Tensor]] = []
        self._rows: torch.Tensor | None = None
        self._positions = np.empty(chunk_rows, np.int64)
        self._filled = 0
        self._pool = ThreadPoolExecutor(_SAVING, "suite-save", initializer=use_all_cores)
        self._saving: deque[tuple[Future[ChunkFile], torch.Tensor]] = deque()
        self._free: list[torch.Tensor] = []
        self._flush_at_end = True
        self._stream: Any = None
        self._thread = threading.Thread(target=self._run, name="suite-writer", daemon=True)
        self._thread.start()

    def push(
        self, rows: torch.Tensor, positions: np.ndarray[Any, Any], numbers: dict[str, torch.Tensor] | None = None
    ) -> None:
        """Queue rows of which the caller keeps no use; `numbers`: `number_facts` and `FINITE`, where they are known."""
        if self._first_push is None:
            self._first_push = time.perf_counter()
        if not rows.is_cuda:
            self._queue.put(_Block(rows=rows, positions=positions, numbers=numbers))
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(rows.device)
        buffer = self._take_pinned(rows)
        self._stream.wait_stream(torch.cuda.current_stream(rows.device))
        with torch.cuda.stream(self._stream):
            host = buffer[: len(rows)]
            host.copy_(rows, non_blocking=True)
            # Pinned too: a copy to ordinary memory would make the engine's thread wait for the step.
            small = {n: torch.empty(v.shape, dtype=v.dtype, pin_memory=True) for n, v in (numbers or {}).items()}
            for name, values in small.items():
                values.copy_((numbers or {})[name], non_blocking=True)
            ready = torch.cuda.Event()
            ready.record(self._stream)
        for tensor in (rows, *(numbers or {}).values()):
            tensor.record_stream(self._stream)
        self._queue.put(_Block(rows=host, positions=positions, numbers=small or None, ready=ready, buffer=buffer))

    def _take_pinned(self, rows: torch.Tensor) -> torch.Tensor:
        """A pinned buffer for these rows: a free one, a new one while there are few, else the next to be free."""
        if self._num_pinned < _PINNED and self._pinned.empty():
            self._num_pinned += 1
        else:
            buffer = self._pinned.get()
            if len(buffer) >= len(rows):
                return buffer
        return torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)

    def close(self, *, flush: bool = True) -> None:
        """Stop; with `flush` write the rows of the last, shorter chunk. `error` says whether all went well."""
        self._flush_at_end = flush
        self._queue.put(None)
        self._thread.join()
        self._pool.shutdown()
        self.span_seconds = 0.0 if self._first_push is None else time.perf_counter() - self._first_push
        for saving, _ in self._saving:  # only after a failure: chunks behind the one that was lost
            if saving.exception() is None:
                (self.folder / saving.result().file).unlink()

    def _run(self) -> None:
        use_all_cores()
        while True:
            item = self._queue.get()
            started = time.perf_counter()
            try:
                if self.error is None:
                    self._handle(item)
            except BaseException as error:  # noqa: BLE001 - kept for the engine's thread
                self.error = error
            if item is not None and item.buffer is not None:
                self._pinned.put(item.buffer)
            self.busy_seconds += time.perf_counter() - started
            if item is None:
                return

    def _handle(self, item: _Block | None) -> None:
        if item is None:
            if self._flush_at_end:
                self._flush()
            while self._saving:
                self._settle()
            return
        if item.ready is not None:
            item.ready.synchronize()
        positions = item.positions
        if positions[0] <= self._last_position:
            raise AgentFailure(
                "incomplete",
                f"position {positions[0]} was computed again after {self._last_position}: the request was preempted",
                "give the engine more KV cache memory",
            )
        self._last_position = int(positions[-1])
        self._add(item.rows, positions, item.numbers)

    def _add(
        self, rows: torch.Tensor, positions: np.ndarray[Any, Any], numbers: dict[str, torch.Tensor] | None
    ) -> None:
        facts = None
        if self._facts:  # now, while the engine computes its next step, and not when the chunk is full
            facts = numbers or number_facts(rows) | {FINITE: finite_rows(rows)}
            facts |= {"row_sha256": row_hashes(rows)}
        done = 0
        while done < len(rows):
            if self._rows is None:
                new = (self._chunk_rows, rows.shape[1])
                self._rows = self._free.pop() if self._free else torch.empty(new, dtype=rows.dtype)
            take = min(len(rows) - done, self._chunk_rows - self._filled)
            self._rows[self._filled : self._filled + take] = rows[done : done + take]
            self._positions[self._filled : self._filled + take] = positions[done : done + take]
            if facts is not None:
                self._chunk_facts.append({name: values[done : done + take] for name, values in facts.items()})
            self._filled += take
            done += take
            if self._filled == self._chunk_rows:
                self._flush()

    def _flush(self) -> None:
        if not self._filled or self._rows is None:
            return
        rows, positions = self._rows[: self._filled], self._positions[: self._filled].copy()
        name = chunk_name(self._named)
        tensors = {
            "rows": rows,
            "positions": torch.from_numpy(positions),
            "target_ids": torch.from_numpy(self._tokens[positions + 1].astype(np.int64)),
        }
        non_finite_rows = None
        if self._chunk_facts:
            names = self._chunk_facts[0]
            facts = {name: torch.cat([part[name] for part in self._chunk_facts]) for name in names}
            non_finite_rows = int((~facts.pop(FINITE)).sum())
            tensors |= facts
            self._chunk_facts = []
        if self._compare:
            _check_same(self.folder / name, tensors)
            self._compare = False
        # Chunks may be written in any order: a resumed start keeps those before the first that is absent.
        saving = self._pool.submit(save_chunk, self.folder, name, tensors, non_finite_rows=non_finite_rows)
        self._saving.append((saving, self._rows))
        self._named += 1
        self._rows = None
        self._filled = 0
        while len(self._saving) > _SAVING:
            self._settle()

    def _settle(self) -> None:
        """Wait until the oldest chunk is on disk."""
        saving, buffer = self._saving.popleft()
        chunk = saving.result()
        self._free.append(buffer)
        self.chunks.append(chunk)
        self.non_finite_rows += chunk.non_finite_rows
        self.num_rows += chunk.num_rows


def _check_same(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    with safe_open(str(path), framework="pt") as file:
        same = torch.equal(file.get_tensor("positions"), tensors["positions"])
        if not same or not np.array_equal(row_bytes(file.get_tensor("rows")), row_bytes(tensors["rows"])):
            raise AgentFailure(
                "not_repeatable",
                f"after the restart a row of {path.name} differs from what the interrupted start had written",
                "the stack does not repeat itself bit for bit: run without --resume to capture it in one go",
            )
