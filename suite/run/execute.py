"""Run manifests: every start of every stack that is missing, then scores, repeat floors and bundles."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
from suite.run.branching import BranchTask, branch_in_run
from suite.run.captures import SANITY_MARGIN_NATS, Store, capture_start, require_same_steps
from suite.run.inventory import take_inventory
from suite.run.performance import performance_of
from suite.run.reference import Reference
from suite.run.replays import replay_in_run, stack_at_hand
from suite.run.scoring import on_device, score_pair
from suite.run.stack import Stack
from suite.runtime.docker import DockerRuntime
from suite.runtime.process import ProcessRuntime
from suite.score.floor import RepeatFloor, Repeats, floor_of, repeat_floor
from suite.score.labels import Labels
from suite.score.ledger import read_ledger
from suite.stack.home import suite_home

ObserverFor = Callable[[str], Observer]
"""Gives the observer of one line of work, by its label; several may be at work at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """How a run is carried out; nothing here changes a number."""

    repeats: int | None = None
    """Starts of each stack; None: what its manifest says."""
    jobs: int = 1
    """Starts at work at the same time."""
    resume: bool = False
    """Go on from the whole chunks of interrupted starts."""
    streaming: bool = False
    """Score a candidate's first start while its engine runs, where both sides hold hidden states."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a run made of one manifest."""

    name: str
    role: str
    bundle: Path | None
    """None for a reference, which is measured against nothing."""
    floor: RepeatFloor
    lock: Lock


@dataclass(kw_only=True, slots=True)
class RunReport:
    """Results and failures of a run, each manifest in exactly one of them."""

    measured: list[Measured] = field(default_factory=list)
    failed: dict[str, SuiteError] = field(default_factory=dict)
    """Name -> what stopped it."""


def execute(
    stacks: Iterable[Stack],
    references: dict[Path, Reference],
    *,
    store: Store,
    root: Path,
    results: Path,
    options: RunOptions,
    observer_for: ObserverFor,
    cancelled: threading.Event,
) -> RunReport:
    """Capture what is missing, score every candidate and write its bundle.

    A stack that fails does not stop the others; a reference that fails stops those that need it. Members of the
    numerical band are scored first, so that the other bundles can name them.

    Args:
        stacks: Prepared stacks; references among them are captured and repeated only.
        references: Reference or arbiter manifest file -> its side.
        store: Where captures lie.
        root: Where a local `.venv-vllm` is looked for.
        results: Where bundles are written.
        options: Repeats, jobs, resume.
        observer_for: Progress.
        cancelled: Set on Ctrl-C; running starts end and keep their whole chunks.
    """
    report = RunReport()
    ordered = sorted(stacks, key=lambda s: ("reference", "band", "candidate").index(s.manifest.role))
    with ThreadPoolExecutor(max_workers=options.jobs, thread_name_prefix="suite-start") as pool:
        try:
            starts = _Starts(pool, store=store, options=options, observer_for=observer_for, cancelled=cancelled)
            needed = {
                r.file: r for r in references.values() if any(r.file in s.manifest.compared_files for s in ordered)
            }
            first = {file: starts.reference(reference) for file, reference in needed.items()}
            work = [(stack, starts.all_of(stack, first), starts.replays(stack, references, root)) for stack in ordered]
            waiting: _Scored | None = None
            for stack, futures, replayed in work:
                try:
                    captures = [future.result() for future in futures]
                    scored = _score(stack, captures, references, first, starts, store, root, observer_for(stack.label))
                except SuiteError as error:
                    report.failed[stack.label] = error
                    continue
                # The futures of one stack's flips are written while the next one is scored.
                _close(waiting, report, references, first, store, results, observer_for)
                waiting = replace(scored, replayed=replayed)
            _close(waiting, report, references, first, store, results, observer_for)
        except BaseException:
            cancelled.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return report


class _Starts:
    """Submits starts: the reference's first start before everything that is compared with it."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        *,
        store: Store,
        options: RunOptions,
        observer_for: ObserverFor,
        cancelled: threading.Event,
    ) -> None:
        self._pool = pool
        self._store = store
        self._options = options
        self._observer_for = observer_for
        self._cancelled = cancelled
        self._known: dict[tuple[str, int], Future[Capture]] = {}

    def reference(self, reference: Reference) -> Future[Capture]:
        if reference.capture is not None:
            done: Future[Capture] = Future()
            done.set_result(reference.capture)
            return done
        assert reference.stack is not None
        return self._submit(reference.stack, 0, None)

    def all_of(self, stack: Stack, first: dict[Path, Future[Capture]]) -> list[Future[Capture]]:
        file = stack.manifest.reference_file
        reference = None if file is None else first[file]
        return [self._submit(stack, k, reference) for k in range(self._options.repeats or stack.lock.repeats)]

    def replays(self, stack: Stack, references: dict[Path, Reference], root: Path) -> Future[ReplaysRecord] | None:
        """Turn replay, where the manifest wants it; a start like others, since it needs the card."""
        if stack.lock.replay is None or stack.manifest.reference_file is None:
            return None
        return self._pool.submit(
            replay_in_run,
            stack,
            references[stack.manifest.reference_file],
            store=self._store,
            root=root,
            observer=self._observer_for(f"{stack.label} replay"),
            cancelled=self._cancelled,
        )

    def branches(
        self, stack: Stack, reference: Reference, captures: dict[str, Capture], ledger: Path, root: Path
    ) -> Callable[[], Branching | None] | None:
        """Futures of the flips, where the manifest wants them; a start of both engines."""
        if stack.lock.branches.policy == "none":
            return None
        other = reference.stack or stack_at_hand(
            reference.file,
            store=self._store,
            root=root,
            observer=self._observer_for(f"{stack.label} branches"),
            cancelled=self._cancelled,
        )
        task = BranchTask(stack=stack, reference=other, captures=captures, ledger=read_ledger(ledger))
        return branch_in_run(
            task, store=self._store, pool=self._pool, observer_for=self._observer_for, cancelled=self._cancelled
        )

    def _submit(self, stack: Stack, start: int, reference: Future[Capture] | None) -> Future[Capture]:
        key = (stack.lock.capture_digest, start)
        if key not in self._known:
            self._known[key] = self._pool.submit(self._capture, stack, start, reference)
        return self._known[key]

    def _capture(self, stack: Stack, start: int, reference: Future[Capture] | None) -> Capture:
        compared = None if reference is None else _reference_of(reference, stack)
        limit = None if compared is None else sanity_limit(compared)
        streaming = self._options.streaming and start == 0 and compared is not None and on_device(compared)
        return capture_start(
            stack,
            start,
            store=self._store,
            resume=self._options.resume,
            sanity_max_nll=limit,
            observer=self._observer_for(f"{stack.label} start {start}"),
            cancelled=self._cancelled,
            streamed_against=compared if streaming else None,
        )


def _reference_of(future: Future[Capture], stack: Stack) -> Capture:
    try:
        return future.result()
    except SuiteError as error:
        raise RunFailed(
            f"its reference failed: {error.message}", where=stack.label, hint="see the reference's own error"
        ) from error


def sanity_limit(reference: Capture) -> float | None:
    """Highest believable mean NLL of a stack with this reference, in nats."""
    mean = reference.index.sanity.mean_nll
    return None if mean is None else mean + SANITY_MARGIN_NATS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scored:
    """A stack whose captures are there and, if it has a reference, are scored."""

    stack: Stack
    captures: list[Capture]
    repeats: Repeats
    ledger: Path | None
    """None for a reference."""
    branches: Callable[[], Branching | None] | None = None
    replayed: Future[ReplaysRecord] | None = None


def _score(
    stack: Stack,
    captures: list[Capture],
    references: dict[Path, Reference],
    first: dict[Path, Future[Capture]],
    starts: _Starts,
    store: Store,
    root: Path,
    observer: Observer,
) -> _Scored:
    repeats = repeat_floor(captures)
    file = stack.manifest.reference_file
    if file is None:
        return _Scored(stack=stack, captures=captures, repeats=repeats, ledger=None)
    reference, reference_capture = references[file], first[file].result()
    candidate = captures[0]
    candidate.require_finite()
    reference_capture.require_finite()
    require_same_steps(stack.lock, reference_capture, candidate)
    ledger = candidate.folder / f"ledger-{reference_capture.index_sha256[:12]}.parquet"
    score_pair(
        ledger,
        reference_capture,
        candidate,
        stack=stack,
        store=store,
        replay_reference=reference.replay(store),
        labels=Labels.of(stack.rendered, stack.lock.capture.ranges),
        observer=observer,
    )
    observer.phase("")
    sides = {"reference": reference_capture, "candidate": candidate}
    branches = starts.branches(stack, reference, sides, ledger, root)
    return _Scored(stack=stack, captures=captures, repeats=repeats, ledger=ledger, branches=branches)


def _close(
    scored: _Scored | None,
    report: RunReport,
    references: dict[Path, Reference],
    first: dict[Path, Future[Capture]],
    store: Store,
    results: Path,
    observer_for: ObserverFor,
) -> None:
    """Write the bundle of a scored stack and report it, or what stopped it."""
    if scored is None:
        return
    stack = scored.stack
    try:
        report.measured.append(_bundle(scored, references, first, store, results, observer_for(stack.label)))
    except SuiteError as error:
        report.failed[stack.label] = error


def _bundle(
    scored: _Scored,
    references: dict[Path, Reference],
    first: dict[Path, Future[Capture]],
    store: Store,
    results: Path,
    observer: Observer,
) -> Measured:
    stack, captures, repeats, ledger = scored.stack, scored.captures, scored.repeats, scored.ledger
    floor = floor_of(repeats)
    file = stack.manifest.reference_file
    if file is None or ledger is None:
        return Measured(name=stack.label, role=stack.manifest.role, bundle=None, floor=floor, lock=stack.lock)
    reference, reference_capture, candidate = references[file], first[file].result(), captures[0]
    branching = None if scored.branches is None else scored.branches()
    replays = None if scored.replayed is None else scored.replayed.result()
    observer.phase("write bundle")
    bundle = write_bundle(
        BundleParts(
            created=datetime.now(UTC),
            manifest_yaml=dump_for_others(stack.manifest).encode(),
            lock=stack.lock,
            reference_lock=reference.lock,
            candidate=candidate,
            reference=reference_capture,
            ledger=ledger,
            repeats=repeats,
            band=band_members(find_bundles(results), reference=evidence_of(reference_capture)),
            arbiter=_arbiter(stack, references, first),
            branching=branching,
            replays=replays,
            sbom=take_inventory(stack, store, observer),
            image=stack.runtime.image.facts if isinstance(stack.runtime, DockerRuntime) else None,
            performance=performance_of(captures),
            engine_log=(candidate.folder / "engine.log").read_text(errors="replace"),
            private=Private.of_this_machine(*private_folders(stack, store)),
        ),
        results=results,
    )
    observer.phase("")
    return Measured(name=stack.label, role=stack.manifest.role, bundle=bundle, floor=floor, lock=stack.lock)


def _arbiter(stack: Stack, references: dict[Path, Reference], first: dict[Path, Future[Capture]]) -> Arbiter | None:
    file = stack.manifest.arbiter_file
    if file is None:
        return None
    try:
        return Arbiter(lock=references[file].lock, capture=first[file].result())
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


def default_jobs(stacks: Iterable[Stack]) -> int:
    """Starts that may run side by side: on CPUs as many as cores allow, on GPUs one, since they share the card."""
    wanted = [s.lock.hardware for s in stacks]
    if not wanted or any(h.kind != "cpu" for h in wanted):
        return 1
    widest = max((s.lock.hardware.threads or 1) * s.lock.engine.tensor_parallel_size for s in stacks)
    return max(1, len(os.sched_getaffinity(0)) // widest)
