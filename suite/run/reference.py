"""Where a candidate's reference comes from: the capture store, a reference pack, or a run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.capture.rows import RowFactory
from suite.capture.store import Capture
from suite.errors import InvalidInput, MissingPrerequisite, SuiteError
from suite.manifest.lock import Lock
from suite.manifest.schema import Manifest
from suite.observer import Observer
from suite.reference.index import IndexedPack, require_as_indexed
from suite.reference.pull import PackHead, peek, pull
from suite.reference.signature import kept_signature, require_signer
from suite.reference.store import StoredReference, differences, find_reference
from suite.run.captures import Store
from suite.run.replayed import replay_in, replay_with
from suite.run.stack import Stack
from suite.runtime.interface import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The reference side of one or more candidates."""

    file: Path
    """Its manifest."""
    lock: Lock
    stack: Stack | None
    """How to run it here; None when its capture was found without its model."""
    capture: Capture | None
    """Its rows, where they are at hand already."""
    runtime: Runtime | None = None
    """Where its rows are replayed, if not in its own stack: a candidate's."""
    device_kind: str = "cpu"
    """What that runtime computes on."""

    def replay(self, store: Store) -> RowFactory | None:
        """How its rows are recomputed from hidden states; None when no stack here can."""
        if self.stack is not None:
            return replay_in(self.stack, store)
        if self.runtime is None:
            return None
        return replay_with(self.runtime, self.lock, store, device_kind=self.device_kind)


def reference_here(stack: Stack, store: Store) -> Reference:
    """The reference as a stack of this machine: captured already, or to be captured."""
    return Reference(
        file=stack.manifest.file,
        lock=stack.lock,
        stack=stack,
        capture=store.find(stack.lock.capture_digest, 0),
    )


def reference_without_model(
    manifest: Manifest, candidate: Stack, *, store: Store, packs: Packs, observer: Observer
) -> Reference | None:
    """The reference from the capture store, else from a pack; its model is neither fetched nor hashed.

    Args:
        manifest: The reference manifest.
        candidate: Gives tokens and positions, and the runtime in which rows are replayed.
        store: Where captures lie.
        packs: Looked through in order if the store has none.
        observer: Told what was found.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: a pack cannot be used; see `suite.reference.pull.pull`.
    """
    stored = find_reference(store.captures, manifest, candidate.lock, accepts=packs.accepts)
    if stored is None:
        stored = packs.take(manifest, candidate.lock, observer)
    if stored is None:
        return None
    made = "here" if stored.pack is None else "elsewhere (reference pack)"
    observer.note(f"reference {manifest.name}: {stored.lock.digest[:12]}, captured {made}")
    return Reference(
        file=manifest.file,
        lock=stored.lock,
        stack=None,
        capture=stored.capture,
        runtime=candidate.runtime,
        device_kind=candidate.lock.hardware.kind,
    )


@dataclass(kw_only=True, slots=True)
class Packs:
    """The packs that a run may take its references from. Each is looked into only when it is needed."""

    given: Sequence[str] = ()
    """Named for this run; one that fits none of its references is an error."""
    standing: Sequence[str] = ()
    """Always at hand, for instance from `$SUITE_REFERENCES`; passed over where they do not fit."""
    indexed: Sequence[IndexedPack] = ()
    """Known to the repository (`references/index.json`); only those of the candidate's token ids are looked into."""
    signers: Sequence[str] = ()
    """Key ids, one of which must have signed whatever pack is taken; none: it may be unsigned."""
    home: Path
    _heads: dict[str, PackHead] = field(default_factory=dict)
    _refused: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Given pack -> reference manifest -> differing keys."""
    _used: set[str] = field(default_factory=set)

    def take(self, manifest: Manifest, candidate: Lock, observer: Observer) -> StoredReference | None:
        """Pull the first pack whose lock is that of `manifest`, at the candidate's tokens and positions.

        Raises:
            InvalidInput, MissingPrerequisite, VerificationFailed: see `suite.reference.pull.pull`.
        """
        for source in (*self.given, *self.standing):
            try:
                keys = differences(manifest, self._head(source).lock, candidate)
            except SuiteError as error:
                if source in self.given:
                    raise
                observer.warn(f"reference pack passed over: {error}")
                continue
            if not keys:
                self._used.add(source)
                return pull(source, home=self.home, signers=self.signers, observer=observer).stored
            if source in self.given:
                self._refused.setdefault(source, {})[manifest.name] = keys
        return self._take_indexed(manifest, candidate, observer)

    def _take_indexed(self, manifest: Manifest, candidate: Lock, observer: Observer) -> StoredReference | None:
        wanted = candidate.workload.tokens_sha256, candidate.capture.path
        for pack in self.indexed:
            if (pack.tokens_sha256, pack.path) != wanted or (self.signers and pack.signer not in self.signers):
                continue
            try:
                head = self._head(pack.url)
            except MissingPrerequisite as error:
                observer.warn(f"reference pack of the index passed over: {error}")
                continue
            require_as_indexed(pack, head)
            if not differences(manifest, head.lock, candidate):
                required = self.signers if pack.signer is None else (pack.signer,)
                require_signer(head.signed, required, where=pack.url)
                return pull(pack.url, home=self.home, signers=required, observer=observer).stored
        return None

    def accepts(self, stored: StoredReference) -> bool:
        """Whether a stored capture may be taken: made here, or signed by one who is required."""
        if not self.signers or stored.pack is None:
            return True
        signed = kept_signature(stored.capture.folder)
        return signed is not None and not set(self.signers).isdisjoint(signed.key_ids)

    def require_used(self) -> None:
        """Refuse given packs that were looked into and fitted nothing.

        Raises:
            InvalidInput: the first, with the keys in which it differs from each reference.
        """
        for source, refused in self._refused.items():
            if source not in self._used:
                told = "; ".join(f"{name}: {', '.join(keys)}" for name, keys in refused.items())
                raise InvalidInput(
                    f"this reference pack is not the reference of these manifests. It differs from {told}",
                    where=source,
                    hint="name the pack of that reference manifest, made with the same workload and positions",
                )

    def told(self) -> str:
        """What was looked through, for an error's hint."""
        count = len(self.given) + len(self.standing) + len(self.indexed)
        return f"{count} reference pack{'s' if count != 1 else ''} and the capture store were looked through"

    def _head(self, source: str) -> PackHead:
        if source not in self._heads:
            self._heads[source] = peek(source, signers=self.signers)
        return self._heads[source]


def require_reference_fits(manifest: Manifest, candidate: Stack, packs: Packs) -> None:
    """Refuse a reference that would not fit here before its checkpoint is fetched.

    The candidate's own `config.json` gives the sizes where both are storings of one base model.

    Raises:
        MissingPrerequisite: what it needs, what there is, and the ways out.
    """
    from suite.run.prepare import host_memory_bytes
    from suite.stack.memory import device_memory_bytes, estimate, model_shape, require_fit

    base = manifest.model.base
    if base is None or base != candidate.manifest.model.base:
        return
    both_gpu = "cpu" not in (manifest.hardware.kind, candidate.lock.hardware.kind)
    # The candidate runs on this machine's card, whatever card the reference manifest was written for.
    hardware = candidate.lock.hardware if both_gpu else manifest.hardware
    host = host_memory_bytes()
    available = device_memory_bytes(hardware, manifest.engine, host_bytes=host)
    if available is None:
        return
    need = estimate(
        model_shape(candidate.model_config),
        manifest.engine,
        manifest.hardware,
        rows_per_gemm=manifest.capture.rows_per_gemm,
        environment=manifest.environment,
    )
    try:
        require_fit(need, available_bytes=available, host_bytes=host, name=manifest.name)
    except MissingPrerequisite as error:
        raise MissingPrerequisite(
            f"the reference of {candidate.label} is not at hand and cannot be run here: {error.message}",
            where=error.where,
            hint=f"{packs.told()}; give its pack with --reference PACK (a file or URL, see `suite reference pull`), "
            "run the reference manifest on a machine with that memory and `suite reference pack` it, or write a "
            "reference manifest that fits (engine.cpu_offload_gib, more ranks)",
        ) from error
