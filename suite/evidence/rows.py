"""Rows of evidence that came from elsewhere: stored ones read, hidden states replayed with whatever is at hand."""

from __future__ import annotations

from pathlib import Path

from suite.capture.rows import RowFactory, RowSource
from suite.capture.store import Capture
from suite.errors import MissingPrerequisite
from suite.manifest.lock import Lock

_GPU = Path("/dev/nvidia0")


def replay_anywhere(capture: Capture, lock: Lock, *, heads: Path, elsewhere: bool = True) -> RowSource:
    """Rows of a `hidden` capture by an interpreter with torch or, where there is none, by NumPy.

    Args:
        capture: Hidden states.
        lock: Of the stack that made them.
        heads: Folder with the head's files.
        elsewhere: Another machine made it: rows whose bits differ are settled. A capture made here and replayed by
            torch must have every bit; NumPy always settles.
    """
    from suite.evidence.numpy_head import NumpyRows
    from suite.run.stored import replay_of

    device = None if lock.hardware.kind == "cpu" or _GPU.exists() else "cpu"
    try:
        return replay_of(capture, lock, heads=heads, elsewhere=elsewhere or device is not None, device=device)
    except MissingPrerequisite:
        return NumpyRows(capture=capture, heads=heads)


def replay_evidence() -> RowFactory:
    """The same for captures of a store, each with its lock and heads beside it."""

    def rows(capture: Capture) -> RowSource:
        from suite.reference.store import is_pulled, open_stored

        lock = open_stored(capture.folder).lock
        heads = capture.folder.resolve().parent.parent / "heads"
        return replay_anywhere(capture, lock, heads=heads, elsewhere=is_pulled(capture))

    return rows
