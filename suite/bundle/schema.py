"""`bundle.json`: the claim of a bundle, and the names and sizes of the files that may stand beside it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from suite.branch.schema import BRANCHES_NAME, FORKS_NAME, BranchHeadlines
from suite.capture.index import CapturePath, Count, RowDtype, Sha256
from suite.errors import VerificationFailed
from suite.files import canonical_json, pretty_json, sha256_bytes, strict_json
from suite.records import refuse_newer, validated
from suite.replay.schema import REPLAYS_NAME, Headline
from suite.score.floor import RepeatFloor
from suite.score.summary import Headlines, OffPolicy

RECORD_NAME = "bundle.json"
SCHEMA_VERSION = 1

_MIB = 1 << 20
REQUIRED_FILES: dict[str, int] = {
    "manifest.yaml": _MIB,
    "lock.json": 16 * _MIB,
    "reference-lock.json": 16 * _MIB,
    "receipt.json": 16 * _MIB,
    "reference-receipt.json": 16 * _MIB,
    "ledger.parquet": 2048 * _MIB,
    "repeats.json": 64 * _MIB,
    "performance.json": _MIB,
    "engine.log": 16 * _MIB,
}
"""Files of every bundle, with the largest size accepted in bytes."""
OPTIONAL_FILES: dict[str, int] = {
    "sbom.cdx.json": 64 * _MIB,
    "arbiter.json": 64 * _MIB,
    "image.json": _MIB,
    BRANCHES_NAME: 16 * _MIB,
    FORKS_NAME: 512 * _MIB,
    REPLAYS_NAME: 256 * _MIB,
}
"""Files a bundle may have."""
RECORD_LIMIT_BYTES = 16 * _MIB

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,119}$"
_FOLDER = re.compile(r"^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}$")

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
BundleId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,119}/[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}$")]
Timestamp = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class BandMember(_Strict):
    """One equally valid BF16 stack, measured against the same reference rows and positions."""

    name: Name
    bundle: BundleId
    """`<name>/<folder>` below the results folder."""
    flips: Count
    flips_tied: Count
    flips_uncertain: Count
    flips_leaning: Count
    flips_confident: Count
    n: Count


class Factor(_Strict):
    """One thing in which the two stacks differ."""

    key: Annotated[str, Field(max_length=200)]
    reference: JsonValue
    candidate: JsonValue
    reason: Annotated[str, Field(max_length=500)] = ""
    """Why it is consequent; empty for a factor."""


class Evidence(_Strict):
    """The capture from which one side of the ledger was computed."""

    capture_digest: Sha256
    start: Count
    index_sha256: Sha256
    rows_sha256: Sha256
    """Over all row hashes in order of position."""
    receipt_sha256: Sha256
    path: CapturePath
    codec: Literal["logits", "hidden"]
    dtype: RowDtype
    num_rows: Count


class EvidencePair(_Strict):
    """Both sides' evidence."""

    reference: Evidence
    candidate: Evidence


class BundleRecord(_Strict):
    """The whole of `bundle.json`."""

    schema_version: Literal[1]
    name: Name
    tier: Literal["self-reported"]
    created: Timestamp
    lock_digest: Sha256
    reference_lock_digest: Sha256
    headlines: Headlines
    repeat_floor: RepeatFloor
    band: tuple[BandMember, ...]
    factors: tuple[Factor, ...]
    consequent: tuple[Factor, ...]
    causal_claim: bool
    """True only when exactly one factor varies, at the same probes."""
    off_policy: OffPolicy
    branches: BranchHeadlines | None = None
    """Flips by class and consequence, where `branches.json` is there."""
    replays: tuple[Headline, ...] | None = None
    """How many calls survive, where `replays.json` is there."""
    evidence: EvidencePair
    files: dict[str, Sha256]
    """Every other file of the bundle."""
    record_sha256: Sha256
    """SHA-256 of the canonical JSON of all the above, so that an accident in this file shows too."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.causal_claim and len(self.factors) != 1:
            raise ValueError(f"a causal claim with {len(self.factors)} factors")
        missing = REQUIRED_FILES.keys() - self.files.keys()
        if missing:
            raise ValueError(f"files does not name {min(missing)}")
        unknown = self.files.keys() - REQUIRED_FILES.keys() - OPTIONAL_FILES.keys()
        if unknown:
            raise ValueError(f"files names {min(unknown)!r}, which no bundle holds")
        if len({self.branches is None, BRANCHES_NAME not in self.files, FORKS_NAME not in self.files}) != 1:
            raise ValueError(f"`branches`, {BRANCHES_NAME} and {FORKS_NAME} belong together")
        if (self.replays is None) != (REPLAYS_NAME not in self.files):
            raise ValueError(f"`replays` and {REPLAYS_NAME} belong together")
        return self

    @property
    def folder_name(self) -> str:
        """`<UTC stamp>-<first 12 digits of the lock digest>`."""
        return folder_name(created=self.created, lock_digest=self.lock_digest)


def folder_name(*, created: str, lock_digest: str) -> str:
    """Name of a bundle's folder.

    Args:
        created: UTC, `YYYY-MM-DDTHH:MM:SSZ`.
        lock_digest: 64 hexadecimal digits.
    """
    return f"{created.replace('-', '').replace(':', '')}-{lock_digest[:12]}"


def is_bundle_folder_name(name: str) -> bool:
    """Whether `name` has the form that `folder_name` gives."""
    return _FOLDER.match(name) is not None


def size_limit(name: str) -> int | None:
    """Largest accepted size of the bundle file `name` in bytes; None if no bundle holds such a file."""
    return REQUIRED_FILES.get(name, OPTIONAL_FILES.get(name))


def seal(fields: dict[str, Any]) -> bytes:
    """The bytes of `bundle.json` for `fields`, with `record_sha256` added.

    Raises:
        InvalidInput: a field is missing or of the wrong kind.
    """
    sealed = {**fields, "record_sha256": sha256_bytes(canonical_json(fields))}
    data = pretty_json(sealed)
    parse_record(data, where=RECORD_NAME)
    return data


def parse_record(data: bytes, *, where: str) -> BundleRecord:
    """Parse the bytes of a `bundle.json`, which must be exactly the bytes that `seal` makes.

    Raises:
        InvalidInput: not strict JSON, a newer schema, or a value of the wrong kind.
        VerificationFailed: its seal does not match, or it is written otherwise.
    """
    value = strict_json(data, where=where)
    refuse_newer(value, newest=SCHEMA_VERSION, where=where)
    record = validated(BundleRecord, data, where=where)
    claimed = value.pop("record_sha256")
    if claimed != sha256_bytes(canonical_json(value)):
        raise VerificationFailed("record_sha256 does not match the record", where=where)
    if data != pretty_json({**value, "record_sha256": claimed}):
        raise VerificationFailed("not written in the form of a bundle record", where=where)
    return record
