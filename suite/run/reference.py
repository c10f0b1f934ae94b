"""Where a candidate's reference comes from: the capture store, a reference pack, or a run on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.capture.rows import RowFactory
from suite.capture.store import Capture
from suite.manifest.lock import Lock
from suite.run.captures import Store
from suite.run.replayed import replay_in
from suite.run.stack import Stack


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The reference side of one or more candidates."""

    file: Path
    """Its manifest."""
    lock: Lock
    stack: Stack | None
    """How to run it here; None when it came as a pack."""
    capture: Capture | None
    """Its rows, where they are at hand already."""

    def replay(self, store: Store) -> RowFactory | None:
        """How its rows are recomputed from hidden states; None when no stack here can."""
        return None if self.stack is None else replay_in(self.stack, store)


def reference_here(stack: Stack, store: Store) -> Reference:
    """The reference as a stack of this machine: captured already, or to be captured."""
    return Reference(
        file=stack.manifest.file,
        lock=stack.lock,
        stack=stack,
        capture=store.find(stack.lock.capture_digest, 0),
    )
