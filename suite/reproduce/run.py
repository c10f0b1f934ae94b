"""Running a proposal: fetch, capture afresh, score, write a bundle of one's own, and compare it with the stranger's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from suite.bundle.derive import device, effective
from suite.bundle.read import Bundle, open_bundle
from suite.bundle.verify import verify_bundle
from suite.records import parse_strictly
from suite.reproduce.compare import Comparison, compare
from suite.reproduce.manifests import require_same_lock, write_manifests
from suite.reproduce.proposal import Proposal
from suite.run.captures import Store
from suite.run.execute import ObserverFor, RunOptions, default_jobs, execute
from suite.run.prepare import Prepared, prepare
from suite.run.reference import Reference
from suite.run.stack import Stack
from suite.runtime.interface import Runtime
from suite.runtime.process import ProcessRuntime
from suite.score.floor import Repeats
from suite.score.ledger import read_ledger
from suite.stack.home import require_writable_results, suite_home
from suite.stack.receipt_view import first_rank
from suite.untyped import as_dict, as_list

if TYPE_CHECKING:
    from suite.signing import SigningKey

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One thing in which the two machines or stacks differ, as the receipts tell it."""

    key: str
    bundle: Any
    here: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduction:
    """What came of running a bundle's lock again."""

    theirs: Bundle
    own: Bundle
    """The fresh run's."""
    captures: Path
    """Store with the evidence of the own bundle."""
    drawn: bool
    comparison: Comparison
    same_hardware: bool
    """The receipts name the same device, and as many of it."""
    reference_from_pack: bool
    """The reference's rows were made elsewhere."""
    differences: tuple[Machine, ...]
    """What the candidates' receipts say differently."""
    network: str
    """How the engines were cut off."""

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "schema_version": 1,
            "bundle_id": self.theirs.bundle_id,
            "record_sha256": self.theirs.record.record_sha256,
            "own_bundle": str(self.own.folder),
            "own_record_sha256": self.own.record.record_sha256,
            "captures": str(self.captures),
            "positions": "drawn" if self.drawn else "all",
            "same_hardware": self.same_hardware,
            "reference_from": "a reference pack" if self.reference_from_pack else "a run here",
            "differences": [{"key": d.key, "bundle": d.bundle, "here": d.here} for d in self.differences],
            "network": self.network,
            **self.comparison.to_json(),
        }


def reproduce(proposal: Proposal, *, observer_for: ObserverFor, cancelled: threading.Event) -> Reproduction:
    """Run what a person agreed to, and compare.

    Every start is captured afresh, into a store of its own below the state folder: a capture that this machine made
    earlier, perhaps for this very bundle, shows nothing. Models are shared with other runs, by hash.

    Args:
        proposal: From `propose`.
        observer_for: Progress.
        cancelled: Set here on Ctrl-C.

    Raises:
        MissingPrerequisite: interpreter, image, model, memory or disk are not there.
        RunFailed: an engine failed, or took other settings than the lock's.
        VerificationFailed: what was fetched or resolved is not what the lock says.
    """
    record = proposal.bundle.record
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = suite_home() / "reproductions" / f"{stamp}-{record.record_sha256[:12]}"
    store, results = Store(home=folder), folder / "results"
    require_writable_results(results)
    manifest = write_manifests(
        proposal.candidate,
        proposal.reference,
        folder,
        session=proposal.session,
        root=proposal.root,
    )
    try:
        prepared = prepare(
            [manifest],
            root=proposal.root,
            observer_for=observer_for,
            cancelled=cancelled,
            packs=proposal.packs,
            store=store,
        )
        prepared = _cut_off(prepared, cut=proposal.open_network is None)
        stack, reference = prepared.stacks[0], _only(list(prepared.references.values()))
        require_same_lock(proposal.candidate, stack.lock, where="lock.json")
        require_same_lock(proposal.reference, reference.lock, where="reference-lock.json")
        jobs = default_jobs(prepared.all_stacks)
        prepared.require_room(RunOptions(repeats=proposal.starts, jobs=jobs))
        # Repeats say how far a stack lies from itself; where the first start is the bundle's bit for bit, nobody asks.
        for starts in sorted({1, proposal.starts}):
            options = RunOptions(repeats=starts, jobs=jobs)
            own = _measured(_of_starts(prepared, starts), proposal, results, options, observer_for, cancelled)
            found = _compared(proposal, own, store, from_pack=reference.stack is None)
            if found.comparison.identical == found.comparison.n or found.comparison.contradicted:
                break
    except KeyboardInterrupt:
        cancelled.set()
        raise
    return found


def attest(reproduction: Reproduction, *, results: Path, key: SigningKey) -> Path:
    """Write the countersigned record of a reproduction, with the own bundle in it; returns its folder.

    Raises:
        InvalidInput: this key signed the bundle itself, or has attested it already.
        MissingPrerequisite: the disk is full.
    """
    from suite.results.attestation import Attestation, Reproduced, write_attestation

    comparison = reproduction.comparison
    attestation = Attestation(
        kind="reproduced",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        bundle_id=reproduction.theirs.bundle_id,
        record_sha256=reproduction.theirs.record.record_sha256,
        detail=Reproduced(
            own_record_sha256=reproduction.own.record.record_sha256,
            same_hardware=reproduction.same_hardware,
            positions="drawn" if reproduction.drawn else "all",
            n=comparison.n,
            identical_rows=comparison.identical,
            flips=comparison.candidate.flips,
            floor_flips=comparison.declared_floor.flips,
            verdict=comparison.verdict,
        ),
    )
    return write_attestation(attestation, results=results, key=key, bundle=reproduction.own.folder)


def _measured(
    prepared: Prepared,
    proposal: Proposal,
    results: Path,
    options: RunOptions,
    observer_for: ObserverFor,
    cancelled: threading.Event,
) -> Bundle:
    """Capture the starts that the fresh store lacks, score, and write a bundle, which is checked like any other."""
    report = execute(
        prepared.stacks,
        prepared.references,
        store=prepared.store,
        root=proposal.root,
        results=results,
        options=options,
        observer_for=observer_for,
        cancelled=cancelled,
    )
    for error in report.failed.values():
        raise error
    bundle = _only(report.measured).bundle
    assert bundle is not None
    verify_bundle(bundle).require_passed()
    return open_bundle(bundle)


def _of_starts(prepared: Prepared, starts: int) -> Prepared:
    """The same, whose manifest and lock ask for as many starts as are made: fewer would look like a choice."""

    def of(stack: Stack) -> Stack:
        changed = {"repeats": starts}
        return replace(
            stack, lock=stack.lock.model_copy(update=changed), manifest=stack.manifest.model_copy(update=changed)
        )

    return replace(prepared, stacks=tuple(of(stack) for stack in prepared.stacks))


def _cut_off(prepared: Prepared, *, cut: bool) -> Prepared:
    """The same stacks with process runtimes that have no network; containers never have one."""
    if not cut:
        return prepared

    def runtime(of: Runtime) -> Runtime:
        return of.without_network() if isinstance(of, ProcessRuntime) else of

    def stack(of: Stack) -> Stack:
        return replace(of, runtime=runtime(of.runtime))

    def reference(of: Reference) -> Reference:
        return replace(
            of,
            stack=None if of.stack is None else stack(of.stack),
            runtime=None if of.runtime is None else runtime(of.runtime),
        )

    return replace(
        prepared,
        stacks=tuple(stack(one) for one in prepared.stacks),
        references={file: reference(one) for file, one in prepared.references.items()},
    )


def _compared(proposal: Proposal, own: Bundle, store: Store, *, from_pack: bool) -> Reproduction:
    theirs = proposal.bundle
    # Hours may lie between the two readings.
    theirs.require_unchanged()
    ours, claimed = own.json_object("receipt.json"), theirs.json_object("receipt.json")
    return Reproduction(
        theirs=theirs,
        own=own,
        captures=store.captures,
        drawn=proposal.drawn,
        comparison=compare(
            read_ledger(theirs.folder / "ledger.parquet"),
            read_ledger(own.folder / "ledger.parquet"),
            declared=_repeats(theirs),
            own=_repeats(own),
        ),
        same_hardware=_hardware(ours) == _hardware(claimed) != (None, 0),
        reference_from_pack=from_pack,
        differences=tuple(_differences(claimed, ours)),
        network=proposal.network(),
    )


def _repeats(bundle: Bundle) -> Repeats:
    return parse_strictly(Repeats, bundle.read("repeats.json"), where="repeats.json")


def _hardware(receipt: dict[str, Any]) -> tuple[str | None, int]:
    return device(receipt), len(as_list(receipt.get("ranks")))


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[Machine]:
    """Settings, versions and devices that the two receipts tell differently; a hostile receipt adds names at most."""
    pairs = [("", effective(theirs), effective(ours))]
    for part in ("device", "packages"):
        pairs.append((f"{part} ", as_dict(first_rank(theirs).get(part)), as_dict(first_rank(ours).get(part))))
    return [
        Machine(key=f"{prefix}{key}"[:200], bundle=claimed.get(key), here=found.get(key))
        for prefix, claimed, found in pairs
        for key in sorted(claimed.keys() | found.keys())
        if claimed.get(key) != found.get(key)
    ]


def _only(values: Sequence[_T]) -> _T:
    (value,) = values
    return value
