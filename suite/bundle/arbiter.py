"""`arbiter.json`: at each flip, whether a float32 stack's top-1 is the reference's, the candidate's, or neither.

Counts only. Float32 is nearer to the arithmetic that both sides approximate; that makes neither side right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from suite.bundle.derive import evidence_of
from suite.bundle.evidence import find_capture
from suite.bundle.read import Bundle
from suite.bundle.schema import Evidence
from suite.capture.index import Count
from suite.capture.store import Capture
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, strict_json
from suite.manifest.arbiter import require_arbiter
from suite.manifest.lock import Lock, parse_lock
from suite.records import parse_strictly
from suite.score.classes import FLIP_CLASSES, FlipClass
from suite.score.ledger import Ledger

ARBITER_NAME = "arbiter.json"

Agrees = Literal["reference", "candidate", "neither"]
SIDES: tuple[Agrees, ...] = ("reference", "candidate", "neither")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ArbiterFlip(_Strict):
    """One flip of the ledger."""

    position: Count
    top1: Count
    """The arbiter's; lowest id among equals."""
    agrees: Agrees
    flip_class: FlipClass


class ArbiterCounts(_Strict):
    """How many flips of one class."""

    flip_class: FlipClass
    reference: Count
    candidate: Count
    neither: Count


class ArbiterRecord(_Strict):
    """The whole file."""

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(max_length=120)]
    lock: dict[str, JsonValue]
    evidence: Evidence
    n: Count
    """Probes of the ledger."""
    counts: tuple[ArbiterCounts, ...]
    """One per class, in the order of the classes."""
    flips: tuple[ArbiterFlip, ...]

    def total(self, side: Agrees) -> int:
        """Flips at which the arbiter is with `side`."""
        return sum(getattr(count, side) for count in self.counts)

    def text(self) -> str:
        """One line for people."""
        told = ", ".join(
            f"{side} {self.total(side)} (confident {self.counts[-1].model_dump()[side]})" for side in SIDES
        )
        return f"at {len(self.flips):,} flips the top-1 of {self.name} (float32) is that of: {told}"


def arbitrate(ledger: Ledger, capture: Capture, lock: Lock) -> ArbiterRecord:
    """Ask a float32 capture of the same probes about every flip of a ledger.

    Args:
        ledger: Of reference and candidate.
        capture: The arbiter's.
        lock: The arbiter's.

    Raises:
        InvalidInput: the capture is not of the ledger's probes.
        RunFailed: it has rows that are not finite.
        VerificationFailed: a chunk of it is damaged.
    """
    capture.require_finite()
    flips = tuple(_flips(ledger, capture))
    return ArbiterRecord(
        name=lock.name,
        lock=strict_json(lock.to_bytes(), where="lock"),
        evidence=evidence_of(capture),
        n=ledger.num_rows,
        counts=count(flips),
        flips=flips,
    )


def count(flips: tuple[ArbiterFlip, ...]) -> tuple[ArbiterCounts, ...]:
    """Counts by class."""

    def of(flip_class: FlipClass, side: Agrees) -> int:
        return sum(flip.flip_class == flip_class and flip.agrees == side for flip in flips)

    return tuple(
        ArbiterCounts(
            flip_class=name,
            reference=of(name, "reference"),
            candidate=of(name, "candidate"),
            neither=of(name, "neither"),
        )
        for name in FLIP_CLASSES
    )


def read_arbiter(bundle: Bundle) -> ArbiterRecord | None:
    """The arbiter's record of a bundle; None where it has none.

    Raises:
        InvalidInput, VerificationFailed: it has one that cannot be read.
    """
    if ARBITER_NAME not in bundle.record.files:
        return None
    return parse_strictly(ArbiterRecord, bundle.read(ARBITER_NAME), where=ARBITER_NAME)


def check_arbiter(
    record: ArbiterRecord, ledger: Ledger, *, reference: Lock, candidate: Lock, captures: Path | None
) -> str:
    """Check a record against its ledger and, where the store has the arbiter's capture, against that.

    Raises:
        VerificationFailed: what does not follow.
        InvalidInput: the arbiter may not judge between these stacks.
    """
    lock = parse_lock(canonical_json(record.lock), where=f"{ARBITER_NAME}: lock")
    if (lock.name, lock.capture_digest) != (record.name, record.evidence.capture_digest):
        raise VerificationFailed("its lock is not that of its capture", where=ARBITER_NAME)
    if record.evidence.dtype != "float32":
        raise VerificationFailed(f"its rows are {record.evidence.dtype}, not float32", where=ARBITER_NAME)
    require_arbiter(reference, candidate, lock)
    columns = ledger.columns
    at = np.flatnonzero(columns["flip"])
    if record.n != ledger.num_rows or [f.position for f in record.flips] != columns["position"][at].tolist():
        raise VerificationFailed("its flips are not those of the ledger", where=ARBITER_NAME)
    for flip, row in zip(record.flips, at.tolist(), strict=True):
        if flip != _flip(ledger, row, flip.top1):
            raise VerificationFailed(f"position {flip.position}: does not follow from the ledger", where=ARBITER_NAME)
    if record.counts != count(record.flips):
        raise VerificationFailed("its counts do not follow from its flips", where=ARBITER_NAME)
    try:
        capture = None if captures is None else find_capture(captures, record.evidence)
    except MissingPrerequisite:
        capture = None
    if capture is None:
        return f"{record.text()}; its capture is not at hand"
    if arbitrate(ledger, capture, lock) != record:
        raise VerificationFailed("does not follow from the arbiter's capture", where=ARBITER_NAME)
    return f"{record.text()}; from its capture"


def _flips(ledger: Ledger, capture: Capture) -> Iterator[ArbiterFlip]:
    facts, index = ledger.facts, capture.index
    ours = (facts.tokens_sha256, facts.path, facts.vocab_size)
    positions = ledger.columns["position"]
    if ours != (index.tokens_sha256, index.path, index.vocab_size) or not np.array_equal(
        positions, capture.probes().positions
    ):
        raise InvalidInput("the arbiter's capture is not of the ledger's probes", where=str(capture.folder))
    flipped = ledger.columns["flip"]
    for row, choice in zip(np.flatnonzero(flipped).tolist(), capture.choices(flipped), strict=True):
        yield _flip(ledger, row, choice.top1)


def _flip(ledger: Ledger, row: int, top1: int) -> ArbiterFlip:
    columns = ledger.columns
    sides: dict[int, Agrees] = {int(columns["ref_top1"][row]): "reference", int(columns["cand_top1"][row]): "candidate"}
    return ArbiterFlip(
        position=int(columns["position"][row]),
        top1=top1,
        agrees=sides.get(top1, "neither"),
        flip_class=str(columns["flip_class"][row]),  # type: ignore[arg-type]
    )
