"""Evidence packs of a bundle: both sides' captures as reference packs, from which anyone recomputes its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.bundle.evidence import find_capture
from suite.bundle.read import Bundle
from suite.files import sha256_file
from suite.observer import Observer
from suite.reference.pack import write_pack
from suite.reference.store import open_stored

SIDES = ("reference", "candidate")


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """One side's pack as it was written."""

    side: str
    """`reference` or `candidate`."""
    path: Path
    sha256: str
    """Of the file's bytes."""
    size_bytes: int


def pack_evidence(
    bundle: Bundle, *, captures: Path, out: Path, licence: str | None = None, observer: Observer | None = None
) -> tuple[Packed, ...]:
    """Write `reference.tar` and `candidate.tar` into `out`, each whole or not at all.

    Args:
        bundle: Names both captures by the hash of their index.
        captures: The capture store that holds them, and their heads.
        out: A folder, made where it is absent.
        licence: What to say about using the packs.
        observer: Told of progress, in bytes.

    Raises:
        InvalidInput: such a file is there already.
        MissingPrerequisite: the store holds not both captures, their locks and heads, or the disk is full.
        VerificationFailed: a capture is damaged.
    """
    evidence = bundle.record.evidence
    stored = {side: open_stored(find_capture(captures, getattr(evidence, side)).folder) for side in SIDES}
    packed = []
    for side in SIDES:
        path = out / f"{side}.tar"
        write_pack(stored[side], heads=captures / "heads", out=path, licence=licence, observer=observer)
        packed.append(Packed(side=side, path=path, sha256=sha256_file(path), size_bytes=path.stat().st_size))
    return tuple(packed)
