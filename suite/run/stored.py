"""Replay of a stored `hidden` capture from the lock that the store keeps beside it, without its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from suite.capture.rows import RowFactory, RowSource
from suite.capture.store import Capture


def replay_stored(
    captures: Path | None = None,
    *,
    python: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> RowFactory:
    """Rows of hidden captures by the stack whose lock stands beside them.

    Args:
        captures: The capture store, which holds the heads; None: the store that the capture lies in.
        python: Interpreter with torch; None: $SUITE_VLLM_PYTHON, or the one of `make vllm`.
        environment: Looked up for the interpreter.
    """

    def rows(capture: Capture) -> RowSource:
        from suite.reference.store import is_pulled, open_stored
        from suite.run.replayed import ReplayedRows
        from suite.runtime.process import ProcessRuntime, find_interpreter
        from suite.stack.engine_arguments import stack_environment
        from suite.stack.home import suite_home

        lock = open_stored(capture.folder).lock
        interpreter = find_interpreter(None if python is None else str(python), environment, Path.cwd())
        return ReplayedRows(
            capture=capture,
            runtime=ProcessRuntime(interpreter, home=suite_home()),
            environment=stack_environment(lock),
            heads=(captures or capture.folder.resolve().parent.parent) / "heads",
            threads=lock.hardware.threads,
            device="cpu" if lock.hardware.kind == "cpu" else "cuda:0",
            elsewhere=is_pulled(capture),
        )

    return rows
