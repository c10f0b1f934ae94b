"""Run manifests: every start of every stack that is missing, then scores, repeat floors and bundles."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from suite.branch.parts import Branching
from suite.capture.store import Capture
from suite.errors import RunFailed, SuiteError
from suite.observer import Observer
from suite.replay.schema import ReplaysRecord
from suite.run.branching import BranchTask, branch_in_run
from suite.run.bundling import Bundling, Compared, Measured, Scored
from suite.run.captures import SANITY_MARGIN_NATS, Store, capture_start, require_same_steps
from suite.run.inventory import Inventories
from suite.run.reference import Reference
from suite.run.replays import replay_in_run
from suite.run.scoring import on_device, score_pair
from suite.run.stack import Stack, stack_at_hand
from suite.score.labels import Labels
from suite.score.ledger import Ledger, read_ledger
from suite.score.report import counts_line
from suite.score.summary import summarise

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


@dataclass(kw_only=True, slots=True)
class RunReport:
    """Results, failures and omissions of a run, each manifest in exactly one of them."""

    measured: list[Measured] = field(default_factory=list)
    failed: dict[str, SuiteError] = field(default_factory=dict)
    """Name -> what stopped it."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Name -> why this machine cannot run it, where such stacks were to be left out."""


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

    A stack that fails does not stop the others; a reference that fails stops those that need it. Starts are made in the
    order in which stacks are given; each stack is scored, and its counts are told, once its first start and the
    reference's are there. Bundles of candidates are written after those of the numerical band, whose members they name.

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
    _import_shared()
    ordered = sorted(stacks, key=lambda s: s.manifest.role != "reference")
    with (
        ThreadPoolExecutor(max_workers=options.jobs, thread_name_prefix="suite-start") as pool,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="suite-bundle") as writer,
    ):
        try:
            starts = _Starts(
                pool, store=store, root=root, options=options, observer_for=observer_for, cancelled=cancelled
            )
            needed = {
                r.file: r for r in references.values() if any(r.file in s.manifest.compared_files for s in ordered)
            }
            compared = {
                file: Compared(reference=reference, capture=starts.reference(reference))
                for file, reference in needed.items()
            }
            inventories = Inventories(store=store)
            bundling = Bundling(compared=compared, store=store, results=results, inventories=inventories)
            captured = {stack.label: starts.all_of(stack, compared) for stack in ordered}
            replays = {stack.label: starts.replays(stack, compared) for stack in ordered}
            left, scored = list(ordered), list[Scored]()
            closing = []
            for stack in _as_first_starts_end(ordered, captured):
                futures = captured[stack.label]
                try:
                    ready = _score(stack, futures, compared, starts, store, observer_for(stack.label))
                    scored.append(replace(ready, replayed=replays[stack.label]))
                except SuiteError as error:
                    report.failed[stack.label] = error
                left.remove(stack)
                band_is_out = all(s.manifest.role != "band" for s in left)
                ready_to_close = [s for s in scored if band_is_out or s.stack.manifest.role != "candidate"]
                for item in sorted(ready_to_close, key=lambda s: s.stack.manifest.role == "candidate"):
                    scored.remove(item)
                    closing.append(writer.submit(_close, item, bundling, report, observer_for))
            for closed in closing:
                closed.result()
        except BaseException:
            cancelled.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return report


def _import_shared() -> None:
    """Import what several threads need: one that meets a circle of imports in the middle sees half a module."""
    for name in ("jsonschema", "cyclonedx.validation.json"):
        importlib.import_module(name)


def _as_first_starts_end(stacks: Sequence[Stack], captured: Mapping[str, Sequence[Future[Capture]]]) -> Iterator[Stack]:
    """Each stack once its first start has ended; of those that have, in the order of `stacks`, the band first."""
    left = sorted(stacks, key=lambda s: s.manifest.role == "candidate")
    while left:
        wait([captured[s.label][0] for s in left], return_when=FIRST_COMPLETED)
        ended = next(s for s in left if captured[s.label][0].done())
        left.remove(ended)
        yield ended


class _Starts:
    """Submits starts: the reference's first start before everything that is compared with it."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        *,
        store: Store,
        root: Path,
        options: RunOptions,
        observer_for: ObserverFor,
        cancelled: threading.Event,
    ) -> None:
        self._pool = pool
        self._store = store
        self._root = root
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

    def all_of(self, stack: Stack, compared: Mapping[Path, Compared]) -> list[Future[Capture]]:
        file = stack.manifest.reference_file
        reference = None if file is None else compared[file].capture
        return [self._submit(stack, k, reference) for k in range(self._options.repeats or stack.lock.repeats)]

    def replays(self, stack: Stack, compared: Mapping[Path, Compared]) -> Future[ReplaysRecord] | None:
        """Turn replay, where the manifest wants it; a start like others, since it needs the card."""
        if stack.lock.replay is None or stack.manifest.reference_file is None:
            return None
        return self._pool.submit(
            replay_in_run,
            stack,
            compared[stack.manifest.reference_file].reference,
            store=self._store,
            root=self._root,
            observer=self._observer_for(f"{stack.label} replay"),
            cancelled=self._cancelled,
        )

    def branches(
        self, stack: Stack, reference: Reference, captures: dict[str, Capture], ledger: Ledger
    ) -> Callable[[], Branching | None] | None:
        """Futures of the flips, where the manifest wants them; a start of both engines."""
        if stack.lock.branches.policy == "none":
            return None
        other = reference.stack or stack_at_hand(
            reference.file,
            home=self._store.home,
            root=self._root,
            observer=self._observer_for(f"{stack.label} branches"),
            cancelled=self._cancelled,
        )
        task = BranchTask(stack=stack, reference=other, captures=captures, ledger=ledger)
        return branch_in_run(
            task, store=self._store, pool=self._pool, observer_for=self._observer_for, cancelled=self._cancelled
        )

    def _submit(self, stack: Stack, start: int, reference: Future[Capture] | None) -> Future[Capture]:
        key = (stack.lock.capture_digest, start)
        if key not in self._known:
            self._known[key] = self._pool.submit(self._capture, stack, start, reference)
        return self._known[key]

    def _capture(self, stack: Stack, start: int, reference: Future[Capture] | None) -> Capture:
        # Streaming and the tighter limit of the sanity pass need the reference; a start beside it does without both.
        needed = self._options.streaming or (reference is not None and reference.done())
        compared = _reference_of(reference, stack) if reference is not None and needed else None
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


def _require_sane(stack: Stack, capture: Capture, reference: Capture) -> None:
    """What the agent has not checked of a start that ran beside its reference: the sanity pass against its limit."""
    limit, mean = sanity_limit(reference), capture.index.sanity.mean_nll
    if limit is not None and mean is not None and not mean <= limit:
        raise RunFailed(
            f"mean NLL over the first {capture.index.sanity.positions} positions is {mean:.3f} nats; a working stack "
            f"stays under {limit:.3f}",
            where=stack.label,
            hint="the engine accepted a setting that it computes wrongly; no result is written",
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


def _score(
    stack: Stack,
    captures: Sequence[Future[Capture]],
    compared: Mapping[Path, Compared],
    starts: _Starts,
    store: Store,
    observer: Observer,
) -> Scored:
    candidate = captures[0].result()
    file = stack.manifest.reference_file
    if file is None:
        return Scored(stack=stack, captures=captures, ledger=None)
    reference, reference_capture = compared[file].reference, _reference_of(compared[file].capture, stack)
    _require_sane(stack, candidate, reference_capture)
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
    scores = read_ledger(ledger)
    observer.note(counts_line(summarise(scores)))
    sides = {"reference": reference_capture, "candidate": candidate}
    branches = starts.branches(stack, reference, sides, scores)
    return Scored(stack=stack, captures=captures, ledger=ledger, branches=branches)


def _close(scored: Scored, bundling: Bundling, report: RunReport, observer_for: ObserverFor) -> None:
    """Write the bundle of a scored stack and report it, or what stopped it."""
    label = scored.stack.label
    try:
        report.measured.append(bundling.measured(scored, observer_for(label)))
    except SuiteError as error:
        report.failed[label] = error


def default_jobs(stacks: Iterable[Stack]) -> int:
    """Starts that may run side by side: on CPUs as many as cores allow, on GPUs one, since they share the card."""
    wanted = [s.lock.hardware for s in stacks]
    if not wanted or any(h.kind != "cpu" for h in wanted):
        return 1
    widest = max((s.lock.hardware.threads or 1) * s.lock.engine.tensor_parallel_size for s in stacks)
    return max(1, len(os.sched_getaffinity(0)) // widest)
