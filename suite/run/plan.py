"""What a run would do: which starts are missing, what they take, and what stands against them. Nothing is started."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from suite.agent.processor import this_processor
from suite.errors import SuiteError
from suite.image.engine import connected
from suite.image.ensure import find_image
from suite.manifest.load import load_manifest
from suite.manifest.lock import Lock
from suite.manifest.schema import Manifest
from suite.model.ensure import find_model
from suite.model.source import LocalModel, Source, source_of
from suite.observer import SilentObserver
from suite.reference.store import captures_of
from suite.run.captures import Store, capture_bytes
from suite.run.prepare import host_memory_bytes, num_probes, weight_bytes
from suite.run.stack import Stack, prepare_stack, refusal_of, rules_of
from suite.stack.known_bad import findings
from suite.stack.memory import device_memory_bytes, estimate, model_shape

_START_SECONDS = 12.0
"""An engine's start where no earlier one was timed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StackPlan:
    """One stack of a run, as far as it can be known without starting or fetching anything."""

    name: str
    role: str
    starts_stored: tuple[int, ...] = ()
    """Starts that the capture store holds."""
    starts_missing: tuple[int, ...] = ()
    num_probes: int | None = None
    """Probes of one start."""
    disk_bytes: int | None = None
    """Disk that the missing starts take, at most."""
    device_bytes: int | None = None
    """Memory of one device."""
    available_bytes: int | None = None
    """What one device offers; None for a GPU of which nothing is known."""
    seconds: float | None = None
    """Of the missing starts, one after the other."""
    seconds_from: str = ""
    """What the time is computed from."""
    obstacles: tuple[str, ...] = ()
    """What stops the run."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def plan(manifests: Sequence[Path], *, home: Path, root: Path, repeats: int | None = None) -> list[StackPlan]:
    """Plan the manifests and the references they need; what is refused by its settings needs none.

    Raises:
        InvalidInput: a manifest cannot be loaded.
    """
    loaded = {path.resolve(): load_manifest(path) for path in manifests}
    named = list(loaded)
    for file in named:
        for other in () if refusal_of(loaded[file], home=home) else loaded[file].compared_files:
            if other not in loaded:
                loaded[other] = load_manifest(other)
    store = Store(home=home)
    return [
        (None if file in named else _found(m, store))
        or _plan(m, store=store, root=root, starts=(repeats or m.repeats) if file in named else 1)
        for file, m in loaded.items()
    ]


def _found(reference: Manifest, store: Store) -> StackPlan | None:
    """The plan of a reference that the store has, whether or not its model is here."""
    try:
        found = captures_of(store.captures, reference)
    except SuiteError:
        return None
    if not found:
        return None
    made = "made here" if found[0].pack is None else "from a reference pack"
    return StackPlan(
        name=reference.name,
        role=reference.role,
        starts_stored=(0,),
        num_probes=found[0].capture.index.num_rows,
        notes=(f"in the capture store, {made}; its model is not needed",),
    )


def _plan(manifest: Manifest, *, store: Store, root: Path, starts: int) -> StackPlan:
    rules = rules_of(manifest, home=store.home)
    bad = findings(manifest, rules=rules, processor=this_processor())
    obstacles = [str(f) for f in bad if f.severity == "refuse"]
    notes = [str(f) for f in bad if f.severity == "warn"]
    obstacles += [f"{key} is unknown: {why}" for key, why in manifest.missing.items()]
    if rules is None and manifest.hardware.kind == "cuda":
        notes.append("its image was not asked which KV caches its backends take: `suite image capabilities MANIFEST`")
    if manifest.branches.policy == "flips" and manifest.role != "reference":
        notes.append("flips are followed: one more start of this stack and of its reference, not in this time")
    common: dict[str, Any] = {"name": manifest.name, "role": manifest.role}
    if obstacles:
        return StackPlan(**common, obstacles=tuple(obstacles), notes=tuple(notes))
    try:
        source = source_of(manifest.model, manifest=manifest.file)
        if find_model(source, home=store.home) is None:
            notes.append(f"the model is not here: {_to_fetch(source)}")
            return StackPlan(**common, notes=tuple(notes))
        if manifest.runtime.image is not None:
            with connected() as engine:
                if not find_image(manifest, engine=engine):
                    notes.append("its image is not here: a run pulls or builds it first, or `suite image verify` does")
                    return StackPlan(**common, notes=tuple(notes))
        stack = prepare_stack(
            manifest.file, home=store.home, root=root, observer=SilentObserver(), cancelled=threading.Event()
        )
    except SuiteError as error:
        return StackPlan(**common, obstacles=(str(error),), notes=tuple(notes))
    return _measure(stack, store, starts, notes)


def _to_fetch(source: Source) -> str:
    what = "derives" if isinstance(source, LocalModel) else "fetches"
    return f"a run {what} it first; disk, memory and time are known after `suite model fetch`"


def _measure(stack: Stack, store: Store, starts: int, notes: list[str]) -> StackPlan:
    lock = stack.lock
    config = stack.model_config
    shape = model_shape(config)
    rules = rules_of(stack.manifest, home=store.home)
    warned = map(str, findings(stack.manifest, config=config, rules=rules, processor=this_processor()))
    notes = list(dict.fromkeys([*notes, *warned]))
    stored = tuple(k for k in range(starts) if store.find(lock.capture_digest, k) is not None)
    missing = tuple(k for k in range(starts) if k not in stored)
    need = estimate(
        shape,
        lock.engine,
        lock.hardware,
        weights_bytes=weight_bytes(stack),
        rows_per_gemm=lock.capture.rows_per_gemm,
        environment=lock.environment,
    )
    available = device_memory_bytes(lock.hardware, lock.engine, host_bytes=host_memory_bytes())
    probes = num_probes(stack)
    seconds, source = _seconds(stack, store, shape.num_parameters)
    obstacles = []
    if missing and available is not None and need.device_bytes > available:
        obstacles.append(
            f"needs about {need.device_bytes / 1e9:.1f} GB on each device, {available / 1e9:.1f} GB are available"
        )
    return StackPlan(
        name=stack.label,
        role=stack.manifest.role,
        starts_stored=stored,
        starts_missing=missing,
        num_probes=probes,
        disk_bytes=len(missing)
        * capture_bytes(
            num_probes=probes,
            hidden_size=shape.hidden_size,
            vocab_size=shape.vocab_size,
            dtype=lock.engine.dtype,
            codec=lock.capture.codec,
        ),
        device_bytes=need.device_bytes,
        available_bytes=available,
        seconds=None if seconds is None else seconds * len(missing),
        seconds_from=source if missing else "",
        obstacles=tuple(obstacles),
        notes=tuple(notes),
    )


def _seconds(stack: Stack, store: Store, parameters: int) -> tuple[float | None, str]:
    """Time of one start: that of earlier starts of the same weights' size and path in the store, else a rough rate."""
    timed = []
    for index_file in store.captures.glob("*/start-*/index.json"):
        try:
            capture = store.find(index_file.parent.parent.name, int(index_file.parent.name.removeprefix("start-")))
        except SuiteError:
            continue
        if capture is None or capture.index.path != stack.lock.capture.path:
            continue
        lock_file = index_file.parent.parent / "lock.json"
        if lock_file.is_file() and _same_size(lock_file.read_bytes(), stack):
            per_token = sum(capture.index.timings.values()) / capture.index.num_tokens
            timed.append(per_token * stack.lock.workload.num_tokens)
    if timed:
        return median(timed), f"{len(timed)} earlier starts"
    if stack.lock.hardware.kind != "cpu":
        return None, "no earlier start of this size on this machine"
    threads = stack.lock.hardware.threads or 1
    rate = _thread_flops(stack.lock) * threads
    # Two operations per parameter and token.
    return _START_SECONDS + 2 * parameters * stack.lock.workload.num_tokens / rate, "a rough rate"


def _thread_flops(lock: Lock) -> float:
    """Rough operations a second of a thread: as seen on a processor with BF16 instructions, and on one of AVX2 only."""
    if lock.engine.dtype == "float32":
        return 30e9 if lock.hardware.isa == "avx2" else 90e9
    return 9e9 if lock.hardware.isa == "avx2" else 150e9


def _same_size(lock_bytes: bytes, stack: Stack) -> bool:
    from suite.manifest.lock import parse_lock

    try:
        other = parse_lock(lock_bytes, where="lock.json")
    except SuiteError:
        return False
    sizes = [sum(f.size_bytes for f in lock.model.files) for lock in (other, stack.lock)]
    return other.hardware == stack.lock.hardware and abs(sizes[0] - sizes[1]) <= 0.5 * max(sizes)
