"""What a run hands over so that a bundle can be written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from suite.bundle.schema import BandMember
from suite.capture.store import Capture
from suite.score.floor import Repeats


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleParts:
    """Everything in a bundle that is not computed from its ledger. Headlines are never passed in."""

    name: str
    """Manifest name: lower-case letters, digits, `.`, `_`, `-`."""
    created: datetime
    """Time of the run, timezone-aware; written in UTC to the second."""
    manifest_yaml: bytes
    """The manifest as the user wrote it."""
    lock: dict[str, Any]
    """The candidate's lock as a JSON object; its digest is the SHA-256 of its canonical JSON."""
    reference_lock: dict[str, Any]
    """The reference's lock."""
    candidate: Capture
    """The scored start (start 0) of the candidate; its folder holds the `receipt.json` that its index names by hash."""
    reference: Capture
    """The reference capture, with its receipt likewise."""
    ledger: Path
    """The ledger of the two captures, written by `suite.score.scorer.write_scores`; it is copied."""
    repeats: Repeats
    """From `suite.score.floor.repeat_floor`."""
    band: tuple[BandMember, ...] = ()
    """Members of the numerical band, from `suite.bundle.band.band_members`."""
    factors: tuple[dict[str, Any], ...] = ()
    """What the comparison varies: objects `{key, reference, candidate}` with JSON values."""
    consequent: tuple[dict[str, Any], ...] = ()
    """Effective differences that follow from the factors, in the same shape."""
    sbom: dict[str, Any] | None = None
    """CycloneDX document of the candidate's stack."""
    performance: dict[str, Any]
    """Phases, rates and memory, as the run measured them."""
    engine_log: str
    """The candidate's engine log; redacted before it is written."""
    private_words: tuple[str, ...] = ()
    """Words to redact beside those found on this machine: host name, user name, secrets of the environment."""
