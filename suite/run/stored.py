"""Replay of a stored `hidden` capture from the lock that the store keeps beside it, without its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from suite.capture.rows import RowFactory, RowSource
from suite.capture.store import Capture

if TYPE_CHECKING:
    from suite.manifest.lock import Lock


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

        return replay_of(
            capture,
            open_stored(capture.folder).lock,
            heads=(captures or capture.folder.resolve().parent.parent) / "heads",
            elsewhere=is_pulled(capture),
            python=python,
            environment=environment,
        )

    return rows


def replay_of(
    capture: Capture,
    lock: Lock,
    *,
    heads: Path,
    elsewhere: bool,
    device: str | None = None,
    python: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> RowSource:
    """Rows of one hidden capture by an interpreter with torch.

    Args:
        capture: Hidden states.
        lock: Gives threads and variables, which change the bits of a matrix product.
        heads: Folder with the head's files.
        elsewhere: Another machine made it: rows that differ are settled, not refused.
        device: `cpu` or `cuda:0`; None: what the lock's stack computed on.
        python: As for `replay_stored`.
        environment: Likewise.

    Raises:
        MissingPrerequisite: there is no such interpreter.
    """
    from suite.run.replayed import ReplayedRows
    from suite.runtime.process import ProcessRuntime, find_interpreter
    from suite.stack.engine_arguments import stack_environment
    from suite.stack.home import suite_home

    interpreter = find_interpreter(None if python is None else str(python), environment, Path.cwd())
    own = "cpu" if lock.hardware.kind == "cpu" else "cuda:0"
    return ReplayedRows(
        capture=capture,
        runtime=ProcessRuntime(interpreter, home=suite_home()),
        environment=stack_environment(lock),
        heads=heads,
        threads=lock.hardware.threads,
        device=device or own,
        elsewhere=elsewhere,
    )
