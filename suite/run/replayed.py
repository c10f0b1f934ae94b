"""The rows of a `hidden` capture, recomputed by its own stack while they are being scored."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suite.capture.index import CaptureIndex
from suite.capture.rows import RowBlock, RowFactory, Rows
from suite.capture.store import Capture
from suite.errors import RunFailed, VerificationFailed
from suite.files import read_json
from suite.manifest.lock import Lock
from suite.observer import SilentObserver
from suite.reference.store import is_pulled
from suite.run.captures import Store
from suite.run.elsewhere import fingerprint_of, settle
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder, Runtime
from suite.stack.engine_arguments import stack_environment

_BLOCK_ROWS = 64
_WINDOW = 4
_POLL_SECONDS = 0.002
_DTYPES = {"bfloat16": np.uint16, "float16": np.float16, "float32": np.float32}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedRows:
    """A `RowSource` over an agent that replays: it writes a few blocks ahead, this side reads and deletes them."""

    capture: Capture
    runtime: Runtime
    environment: Mapping[str, str]
    heads: Path
    threads: int | None
    """CPU threads of the stack; they change the bits of a matrix product."""
    device: str
    """`cpu` or `cuda:0`."""
    elsewhere: bool = False
    """Another machine made the capture: rows that differ are settled (see `suite.run.elsewhere`), not refused."""

    @property
    def index(self) -> CaptureIndex:
        """The capture's index."""
        return self.capture.index

    def blocks(self) -> Iterator[RowBlock]:
        """All probes in order, in blocks of up to 64 rows.

        Raises:
            RunFailed: the stack could not replay.
            VerificationFailed: a replayed row is not the one that was captured, or, made elsewhere, not near it.
        """
        spool = Path(tempfile.mkdtemp(prefix="suite-replay-"))
        failure: list[BaseException] = []

        def replay() -> None:
            try:
                self.runtime.call(self._call(spool), SilentObserver())
            except BaseException as error:  # noqa: BLE001 - carried to the reading thread
                failure.append(error)

        worker = threading.Thread(target=replay, name="suite-replay", daemon=True)
        worker.start()
        try:
            yield from self._read(spool, worker, failure)
        finally:
            (spool / "stop").touch()
            worker.join()
            shutil.rmtree(spool, ignore_errors=True)

    def _call(self, spool: Path) -> AgentCall:
        index = self.index
        assert index.head is not None

        def request(paths: Mapping[str, str]) -> dict[str, Any]:
            return {
                "out": paths["out"],
                "heads": paths["heads"],
                "shards": list(index.head.sha256s) if index.head else [],
                "chunks": [f"{paths['capture']}/{chunk.file}" for chunk in index.chunks],
                "num_rows": index.num_rows,
                "rows_per_gemm": index.rows_per_gemm,
                "block_rows": max(_BLOCK_ROWS, index.rows_per_gemm),
                "window": _WINDOW,
                "threads": self.threads,
                "device": self.device,
            }

        return AgentCall(
            command="replay",
            folders={
                "out": Folder(host=spool, writable=True),
                "heads": Folder(host=self.heads),
                "capture": Folder(host=self.capture.folder),
            },
            request=request,
            environment=self.environment,
        )

    def _read(self, spool: Path, worker: threading.Thread, failure: list[BaseException]) -> Iterator[RowBlock]:
        table = self.capture.probes()
        facts = fingerprint_of(self.capture) if self.elsewhere else None
        width, dtype = self.index.vocab_size, _DTYPES[self.index.dtype]
        row = number = 0
        while row < self.index.num_rows:
            path = spool / f"block-{number:06d}.bin"
            while not path.is_file():
                if not worker.is_alive() and not path.is_file():
                    raise failure[0] if failure else RunFailed("the replay ended early", where=str(self.capture.folder))
                time.sleep(_POLL_SECONDS)
            rows: Rows = np.fromfile(path, dtype=dtype).reshape(-1, width)
            path.unlink()
            part = slice(row, row + len(rows))
            block = RowBlock(
                positions=table.positions[part],
                target_ids=table.target_ids[part],
                row_sha256=table.row_sha256[part],
                rows=rows,
            )
            yield block if facts is None else settle(block, facts, row, where=str(self.capture.folder))
            row += len(rows)
            number += 1
        worker.join()
        if failure:
            raise failure[0]
        if self.elsewhere:
            return
        done = read_json(spool / "done.json")
        if done["matched"] != done["rows"]:
            raise VerificationFailed(
                f"{done['rows'] - done['matched']} of {done['rows']} replayed rows are not those that were captured",
                where=str(self.capture.folder),
                hint="replay with the interpreter, threads and processor that captured, or use `codec: logits`; "
                "if the capture was damaged on disk, delete it and run it again",
            )


def replay_in(stack: Stack, store: Store) -> RowFactory:
    """Replays a hidden capture of `stack` in its own environment."""
    return replay_with(stack.runtime, stack.lock, store, device_kind=stack.lock.hardware.kind)


def replay_with(runtime: Runtime, lock: Lock, store: Store, *, device_kind: str) -> RowFactory:
    """Replays hidden captures of `lock` in any runtime that has torch.

    Args:
        runtime: Where the agent runs.
        lock: Gives threads and variables, which change the bits of a matrix product.
        store: Holds the head.
        device_kind: What this machine computes on: `cpu`, `cuda` or `rocm`.
    """

    def replay(capture: Capture) -> ReplayedRows:
        return ReplayedRows(
            capture=capture,
            runtime=runtime,
            environment=stack_environment(lock),
            heads=store.heads,
            threads=lock.hardware.threads,
            device="cpu" if device_kind == "cpu" else "cuda:0",
            elsewhere=is_pulled(capture),
        )

    return replay
