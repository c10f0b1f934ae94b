"""From manifest files to stacks and references that are known to fit, before anything starts."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suite.errors import InvalidInput
from suite.manifest.arbiter import require_arbiter
from suite.manifest.load import load_manifest
from suite.manifest.lock import require_complete
from suite.manifest.positions import probe_positions
from suite.reference.index import INDEX_PATH, IndexedPack, read_index
from suite.run.captures import Store, capture_bytes, require_disk
from suite.run.reference import (
    Packs,
    Reference,
    reference_here,
    reference_without_model,
    require_reference_fits,
)
from suite.run.stack import Stack, prepare_stack
from suite.stack.home import require_writable, suite_home
from suite.stack.memory import device_memory_bytes, estimate, model_shape, require_fit

if TYPE_CHECKING:
    # A plan prepares nothing to run, and answers in half the time without.
    from suite.run.execute import ObserverFor, RunOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """Everything a run needs."""

    stacks: tuple[Stack, ...]
    """As named by the user, each once."""
    references: dict[Path, Reference]
    """Reference or arbiter manifest file -> its side."""
    store: Store

    @property
    def all_stacks(self) -> tuple[Stack, ...]:
        """The user's stacks and the references that may have to run here."""
        own = {stack.manifest.file for stack in self.stacks}
        extra = (r.stack for r in self.references.values() if r.stack is not None and r.file not in own)
        return (*self.stacks, *extra)

    def missing_starts(self, options: RunOptions) -> dict[str, list[int]]:
        """Stack name -> numbers of the starts that the store lacks."""
        own = {stack.label for stack in self.stacks}
        result = {}
        for stack in self.all_stacks:
            # A reference that is only compared with needs its first start.
            wanted = (options.repeats or stack.lock.repeats) if stack.label in own else 1
            digest = stack.lock.capture_digest
            result[stack.label] = [k for k in range(wanted) if self.store.find(digest, k) is None]
        return result

    def require_room(self, options: RunOptions) -> None:
        """Refuse what does not fit in memory or on disk.

        Raises:
            MissingPrerequisite: with what is needed, what there is, and the ways out.
        """
        missing = self.missing_starts(options)
        disk = 0
        for stack in self.all_stacks:
            if not missing[stack.label]:
                continue
            config = stack.model_config
            shape = model_shape(config)
            lock = stack.lock
            need = estimate(
                shape,
                lock.engine,
                lock.hardware,
                weights_bytes=weight_bytes(stack),
                rows_per_gemm=lock.capture.rows_per_gemm,
                environment=lock.environment,
            )
            available = device_memory_bytes(lock.hardware, lock.engine, host_bytes=host_memory_bytes())
            if available is not None:
                side_by_side = options.jobs if lock.hardware.kind == "cpu" else 1
                require_fit(
                    need, available_bytes=available // side_by_side, host_bytes=host_memory_bytes(), name=stack.label
                )
            disk += len(missing[stack.label]) * capture_bytes(
                num_probes=num_probes(stack),
                hidden_size=shape.hidden_size,
                vocab_size=shape.vocab_size,
                dtype=lock.engine.dtype,
                codec=lock.capture.codec,
            )
        require_disk(disk, home=self.store.home)


def prepare(
    manifests: Sequence[Path],
    *,
    root: Path,
    observer_for: ObserverFor,
    cancelled: threading.Event,
    packs: Sequence[str] = (),
    standing_packs: Sequence[str] = (),
    signers: Sequence[str] = (),
    store: Store | None = None,
) -> Prepared:
    """Load, fetch, render and lock the manifests, and find their references.

    A reference is looked up in the capture store and then in the packs; only if neither has it, it is prepared to run
    here. A reference that is itself among `manifests` always is.

    Args:
        manifests: Manifest files.
        root: Where a local `.venv-vllm` is looked for.
        observer_for: Progress.
        cancelled: Stops running starts when set.
        packs: Reference packs (paths or URLs) for this run; each that is looked into must fit one reference.
        standing_packs: Packs to look into where they fit.
        signers: Key ids, one of which must have signed whatever pack is taken.
        store: Where captures lie; None: the state folder's.

    Raises:
        InvalidInput: a manifest is named twice or cannot be used, or does not probe what its reference probes.
        MissingPrerequisite, VerificationFailed: see `prepare_stack`.
    """
    home = suite_home()
    require_writable(home)
    store = store or Store(home=home)
    stacks: dict[Path, Stack] = {}

    def one(path: Path) -> Stack:
        file = path.resolve()
        if file not in stacks:
            stacks[file] = prepare_stack(
                path, home=home, root=root, observer=observer_for(path.stem), cancelled=cancelled
            )
        return stacks[file]

    named = tuple(one(path) for path in dict.fromkeys(p.resolve() for p in manifests))
    _refuse_same_name(named)
    references: dict[Path, Reference] = {}
    shelf = Packs(
        given=packs,
        standing=standing_packs,
        indexed=_indexed_packs({stack.manifest.root for stack in named}),
        signers=signers,
        home=store.home,
    )
    wanted = {file: s for s in reversed(named) for file in s.manifest.compared_files}
    for file, stack in wanted.items():
        if file not in stacks:
            reference = load_manifest(file)
            require_complete(reference)
            observer = observer_for(file.stem)
            found = reference_without_model(reference, stack, store=store, packs=shelf, observer=observer)
            if found is not None:
                references[file] = found
    shelf.require_used()
    for file, stack in wanted.items():
        if file not in references:
            if file not in stacks:
                require_reference_fits(load_manifest(file), stack, shelf)
            references[file] = reference_here(one(file), store)
    for stack in named:
        for file in stack.manifest.compared_files:
            _require_same_probes(stack, references[file])
        if stack.manifest.reference_file is not None and stack.manifest.arbiter_file is not None:
            pair = (references[stack.manifest.reference_file], references[stack.manifest.arbiter_file])
            require_arbiter(pair[0].lock, stack.lock, pair[1].lock)
    return Prepared(stacks=named, references=references, store=store)


def _indexed_packs(roots: Iterable[Path]) -> tuple[IndexedPack, ...]:
    """The packs that the manifests' repositories know."""
    files = [root / INDEX_PATH for root in sorted(roots)]
    return tuple(pack for file in files if file.is_file() for pack in read_index(file).packs)


def _refuse_same_name(stacks: Sequence[Stack]) -> None:
    seen: dict[str, Path] = {}
    for stack in stacks:
        if stack.label in seen:
            raise InvalidInput(
                f"two manifests are called {stack.label}",
                where=str(stack.manifest.file),
                hint=f"rename it or {seen[stack.label]}",
            )
        seen[stack.label] = stack.manifest.file


def _require_same_probes(stack: Stack, reference: Reference) -> None:
    from suite.manifest.diff import factors

    comparison = factors(reference.lock, stack.lock)
    if comparison.not_comparable:
        raise InvalidInput(
            f"cannot be compared with its reference {reference.lock.name}: {'; '.join(comparison.not_comparable)}",
            where=stack.label,
            hint="give both the same workload, capture path, stride and ranges",
        )


def weight_bytes(stack: Stack) -> int:
    """Size of the checkpoint's safetensors files, in bytes."""
    return sum(f.size_bytes for f in stack.lock.model.files if f.path.endswith(".safetensors"))


def num_probes(stack: Stack) -> int:
    """Probes of one start."""
    capture = stack.lock.capture
    return len(
        probe_positions(
            path=capture.path,
            stride=capture.stride,
            ranges=capture.ranges,
            num_tokens=stack.lock.workload.num_tokens,
        )
    )


def host_memory_bytes() -> int:
    """Memory of this machine that is free for a run, in bytes: what Linux says is available, else all there is."""
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
