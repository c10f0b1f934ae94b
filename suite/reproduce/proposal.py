"""What `suite reproduce` would fetch and run, put together for a person before anything is fetched or started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.agent.processor import isa_words
from suite.bundle.read import Bundle
from suite.errors import InvalidInput
from suite.files import canonical_json
from suite.manifest.lock import Lock, LockedImage, LockedModel
from suite.manifest.schema import Hardware
from suite.reproduce.admit import admit
from suite.reproduce.draw import draw, positions_of
from suite.reproduce.manifests import session_of
from suite.reproduce.policy import MOST_STARTS, Policy, require_allowed
from suite.runtime.network import why_not_cut_off
from suite.workload.session import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """Everything that is known before the first byte is fetched."""

    bundle: Bundle
    key_ids: tuple[str, ...]
    """The bundle's signers."""
    candidate: Lock
    """To be run; its capture policy may have been drawn."""
    reference: Lock
    drawn: bool
    num_positions: int
    """To be captured and compared."""
    starts: int
    """Of the candidate."""
    session: Session
    root: Path
    packs: tuple[str, ...]
    """Where the reference is taken from, if it is not run here."""
    open_network: str | None
    """Why the engine cannot be cut off the network; None where it is."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Name and value of everything that a person should see before agreeing."""
        record = self.bundle.record
        yield "bundle", f"{self.bundle.bundle_id} (record {record.record_sha256[:12]})"
        yield "signed by", ", ".join(self.key_ids) or "nobody: a record of this run will lift no tier"
        whole = len(positions_of(self.bundle.lock().capture, num_tokens=self.candidate.workload.num_tokens))
        what = f"{self.num_positions:,} of {whole:,} positions, drawn now" if self.drawn else f"all {whole:,} positions"
        yield "captures", f"{what}, {self.candidate.capture.path} path; {self.told_starts()}"
        yield "session", f"{self.session.name}, {self.candidate.workload.num_tokens:,} tokens, from workloads/ here"
        for side, lock in (("candidate", self.candidate), ("reference", self.reference)):
            if side == "reference" and self.packs:
                yield side, f"from {', '.join(self.packs)}, if that is the capture of this lock"
            yield f"{side} runs in", _runtime(lock)
            yield f"{side} model", _model(lock.model)
            yield (
                f"{side} engine",
                canonical_json(lock.engine.model_dump(mode="json", exclude_none=True)).decode().strip(),
            )
            if lock.environment:
                yield f"{side} variables", " ".join(f"{k}={v}" for k, v in sorted(lock.environment.items()))
            yield f"{side} hardware", _hardware(lock.hardware)
        yield "network", self.network()
        if any(lock.runtime.kind == "process" for lock in (self.candidate, self.reference)):
            yield "files", "the engine runs as you: it may read and write what you may"

    def told_starts(self) -> str:
        """How often the candidate is started, in words."""
        more = self.starts - 1
        return "one start of the candidate" + (f", and {more} more if its rows are not the bundle's" if more else "")

    def network(self) -> str:
        """How the engines are cut off, in words."""
        if all(lock.runtime.kind == "docker" for lock in (self.candidate, self.reference)):
            return "none while the engines run: their containers have none"
        if self.open_network is None:
            return "none while the engines run: they are in a namespace of the kernel without one"
        return f"NOT CUT OFF while the engines run ({self.open_network})"


def propose(
    path: Path,
    *,
    root: Path,
    policy: Policy,
    count: int | None = None,
    starts: int | None = None,
    packs: Sequence[str] = (),
) -> Proposal:
    """Take a bundle in, hold its locks against the policy, and draw the positions.

    Args:
        path: A bundle's or submission's folder.
        root: The repository, which holds `workloads`.
        policy: What is allowed.
        count: Positions to draw; None: all of the lock's.
        starts: Of the candidate; None: those of the lock, at most three.
        packs: Reference packs from which the reference may be taken.

    Raises:
        InvalidInput: not a bundle, something is not allowed, or session or positions are not there.
        VerificationFailed: the bundle is hostile or contradicts itself.
    """
    admitted = admit(path)
    candidate, reference = admitted.bundle.lock(), admitted.bundle.lock("reference-lock.json")
    require_allowed({"lock.json": candidate, "reference-lock.json": reference}, policy, root=root)
    if count is not None and packs:
        raise InvalidInput(
            "a reference pack holds the rows of all positions, not of drawn ones",
            where="--positions",
            hint="capture all positions, or run the reference here too",
        )
    session = session_of(candidate, root=root)
    num_tokens = candidate.workload.num_tokens
    if count is not None:
        capture = draw(candidate.capture, num_tokens=num_tokens, count=count)
        candidate = candidate.model_copy(update={"capture": capture})
        chosen = {"stride": capture.stride, "ranges": capture.ranges}
        reference = reference.model_copy(update={"capture": reference.capture.model_copy(update=chosen)})
    processes = [lock for lock in (candidate, reference) if lock.runtime.kind == "process"]
    return Proposal(
        bundle=admitted.bundle,
        key_ids=admitted.key_ids,
        candidate=candidate,
        reference=reference,
        drawn=count is not None,
        num_positions=len(positions_of(candidate.capture, num_tokens=num_tokens)),
        starts=starts or min(candidate.repeats, MOST_STARTS),
        session=session,
        root=root,
        packs=tuple(packs),
        open_network=why_not_cut_off() if processes else None,
    )


def _runtime(lock: Lock) -> str:
    if lock.runtime.image is not None:
        return f"a container of {_image(lock.runtime.image)}"
    packages = " ".join(f"{name}=={version}" for name, version in sorted(lock.runtime.packages.items()))
    return f"an interpreter of this machine that has {packages}; nothing is installed"


def _hardware(hardware: Hardware) -> str:
    threads = "" if hardware.threads is None else f", {hardware.threads} thread{'s' if hardware.threads != 1 else ''}"
    isa = "" if hardware.isa is None else f" ({isa_words(hardware.isa)})"
    return f"{hardware.count} x {hardware.kind} {hardware.gpu or hardware.architecture}{isa}{threads}"


def _image(image: LockedImage) -> str:
    if image.build is not None:
        return f"the recipe {image.build.recipe} of this repository"
    return image.pinned_name


def _model(model: LockedModel) -> str:
    source = model.source
    size = sum(file.size_bytes for file in model.files)
    made = f", made into {source.derive} here" if source.derive else ""
    if source.pypi is not None:
        rest = len(source.pypi.rest or ())
        name = f"{source.pypi.package} {source.pypi.version}{f' and {rest} more wheels' if rest else ''}, by hash"
    else:
        name = f"{source.repository}@{source.revision}"
    return f"{name}{made}: {len(model.files)} files, {size / 1e9:,.2f} GB, each by its hash in the lock"
