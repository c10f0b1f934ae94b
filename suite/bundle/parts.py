"""What a run hands over so that a bundle can be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from suite.branch.parts import Branching
from suite.bundle.redact import Private
from suite.bundle.schema import BandMember
from suite.capture.store import Capture
from suite.image.facts import ImageFacts
from suite.manifest.lock import Lock
from suite.replay.schema import ReplaysRecord
from suite.score.floor import Repeats


@dataclass(frozen=True, kw_only=True, slots=True)
class Arbiter:
    """What is asked at each flip."""

    lock: Lock
    capture: Capture
    """Of the same probes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleParts:
    """Everything that a bundle's claims are computed from. Headlines, floor and factors are never passed in."""

    created: datetime
    """Time of the run, timezone-aware; written in UTC to the second."""
    manifest_yaml: bytes
    """The manifest as the user wrote it."""
    lock: Lock
    """The candidate's lock. Its name names the bundle."""
    reference_lock: Lock
    """The reference's lock."""
    candidate: Capture
    """The scored start (start 0) of the candidate; its folder holds the `receipt.json` that its index names by hash."""
    reference: Capture
    """The reference capture, with its receipt likewise."""
    ledger: Path
    """The ledger of the two captures, written by `suite.score.scorer.write_scores`; it is copied."""
    repeats: Repeats
    """From `suite.score.floor.repeat_floor`, of the candidate's starts."""
    band: tuple[BandMember, ...] = ()
    """Members of the numerical band, from `suite.bundle.band.band_members`."""
    arbiter: Arbiter | None = None
    """A float32 stack with the same weights, where the manifest names one."""
    branching: Branching | None = None
    """Futures of its flips, where the manifest asks for them."""
    replays: ReplaysRecord | None = None
    """Turn replays of the candidate, and of the reference where it could be run."""
    sbom: dict[str, Any] | None = None
    """CycloneDX document of the candidate's stack."""
    image: ImageFacts | None = None
    """The candidate's image, where its runtime is a container."""
    performance: dict[str, Any]
    """Phases, rates and memory, as the run measured them; JSON values."""
    engine_log: str
    """The candidate's engine log; redacted before it is written."""
    private: Private = field(default_factory=Private.of_this_machine)
    """What must not be left in the log."""
