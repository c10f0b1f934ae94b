"""From a scored stack to its bundle."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from suite.branch.parts import Branching
from suite.bundle.band import band_members
from suite.bundle.derive import evidence_of
from suite.bundle.find import find_bundles
from suite.bundle.parts import Arbiter, BundleParts
from suite.bundle.redact import Private
from suite.bundle.write import write_bundle
from suite.capture.store import Capture
from suite.errors import RunFailed, SuiteError
from suite.manifest.load import dump_for_others
from suite.manifest.lock import Lock
from suite.observer import Observer
from suite.replay.schema import ReplaysRecord
from suite.run.captures import Store
from suite.run.inventory import Inventories
from suite.run.performance import performance_of
from suite.run.reference import Reference
from suite.run.stack import Stack
from suite.runtime.docker import DockerRuntime
from suite.runtime.process import ProcessRuntime
from suite.score.floor import RepeatFloor, floor_of, repeat_floor
from suite.stack.home import suite_home


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a run made of one manifest."""

    name: str
    role: str
    bundle: Path | None
    """None for a reference, which is measured against nothing."""
    floor: RepeatFloor
    lock: Lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What stacks are compared with, a reference or an arbiter, and its first start, done or not."""

    reference: Reference
    capture: Future[Capture]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """A stack whose first start is there and, if it has a reference, is scored."""

    stack: Stack
    captures: Sequence[Future[Capture]]
    """Its starts, the first done and the others perhaps not yet."""
    ledger: Path | None
    """None for a reference."""
    branches: Callable[[], Branching | None] | None = None
    replayed: Future[ReplaysRecord] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundling:
    """Writes the bundles of one run."""

    compared: Mapping[Path, Compared]
    """By manifest file."""
    store: Store
    results: Path
    inventories: Inventories

    def measured(self, scored: Scored, observer: Observer) -> Measured:
        """Write the bundle of a stack that has a reference; one that has none is measured against nothing.

        Raises:
            SuiteError: what a further start, its forks, its turn replay or its arbiter failed with, or the bundle could
                not be written.
        """
        stack, ledger = scored.stack, scored.ledger
        captures = [future.result() for future in scored.captures]
        repeats = repeat_floor(captures)
        floor = floor_of(repeats)
        file = stack.manifest.reference_file
        if file is None or ledger is None:
            return Measured(name=stack.label, role=stack.manifest.role, bundle=None, floor=floor, lock=stack.lock)
        compared, candidate = self.compared[file], captures[0]
        reference = compared.capture.result()
        branching = None if scored.branches is None else scored.branches()
        replays = None if scored.replayed is None else scored.replayed.result()
        observer.phase("write bundle")
        bundle = write_bundle(
            BundleParts(
                created=datetime.now(UTC),
                manifest_yaml=dump_for_others(stack.manifest).encode(),
                lock=stack.lock,
                reference_lock=compared.reference.lock,
                candidate=candidate,
                reference=reference,
                ledger=ledger,
                repeats=repeats,
                band=band_members(find_bundles(self.results), reference=evidence_of(reference)),
                arbiter=self._arbiter(stack),
                branching=branching,
                replays=replays,
                sbom=self.inventories.sbom(stack, observer),
                image=stack.runtime.image.facts if isinstance(stack.runtime, DockerRuntime) else None,
                performance=performance_of(captures),
                engine_log=(candidate.folder / "engine.log").read_text(errors="replace"),
                private=Private.of_this_machine(*private_folders(stack, self.store)),
            ),
            results=self.results,
        )
        observer.phase("")
        return Measured(name=stack.label, role=stack.manifest.role, bundle=bundle, floor=floor, lock=stack.lock)

    def _arbiter(self, stack: Stack) -> Arbiter | None:
        file = stack.manifest.arbiter_file
        if file is None:
            return None
        try:
            compared = self.compared[file]
            return Arbiter(lock=compared.reference.lock, capture=compared.capture.result())
        except SuiteError as error:
            raise RunFailed(
                f"its arbiter failed: {error.message}", where=stack.label, hint="see the arbiter's own error"
            ) from error


def private_folders(stack: Stack, store: Store) -> tuple[tuple[str, str], ...]:
    """Folders of this machine that engine logs name, with the words that stand for them in a bundle."""
    folders = [
        (store.home, "<state>"),
        (suite_home(), "<state>"),
        (Path(tempfile.gettempdir()), "<temporary>"),
        (Path(sys.prefix), "<suite>"),
    ]
    if isinstance(stack.runtime, ProcessRuntime):
        folders.append((stack.runtime.python.parent.parent, "<stack>"))
    return tuple((str(folder), word) for folder, word in folders)
