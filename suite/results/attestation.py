"""Attestations: someone's signed word that a bundle was checked, or run again, and what came out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.bundle.find import bundle_below, folders_in
from suite.bundle.read import Bundle, open_bundle
from suite.bundle.schema import BundleId, Timestamp
from suite.capture.index import Count, Sha256
from suite.errors import InvalidInput, VerificationFailed
from suite.files import pretty_json, read_regular
from suite.folders import whole_folder
from suite.records import parse_strictly
from suite.results.layout import ATTESTATIONS
from suite.submission.read import signers_of
from suite.submission.schema import BUNDLE_FOLDER, SUBMISSION_NAME, SUBMISSIONS, submission_id

if TYPE_CHECKING:
    from suite.signing import SigningKey

ATTESTATION_NAME = "attestation.json"
SCHEMA_VERSION = 1
LIMIT_BYTES = 64 << 10

Kind = Literal["consistent", "reproduced"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Consistent(_Strict):
    """The ledger was computed again from the tensors supplied; this does not show what made them."""

    method: Literal["whole", "drawn"]
    """Every row, or rows drawn by a nonce that was chosen after the root was published."""
    rows: Annotated[int, Field(ge=1)]
    """Of the ledger."""
    drawn: Annotated[int, Field(ge=1)]
    """Rows computed again; all of them for `whole`."""
    nonce: Sha256 | None
    """32 bytes as hexadecimal digits; None for `whole`."""
    root: Sha256 | None
    """Of the commitment; None for `whole`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.drawn > self.rows:
            raise ValueError("more rows drawn than there are")
        if self.method == "whole" and (self.drawn != self.rows or self.nonce or self.root):
            raise ValueError("`whole` means every row, without a nonce and a root")
        if self.method == "drawn" and not (self.nonce and self.root):
            raise ValueError("`drawn` needs the nonce and the root")
        return self


class Reproduced(_Strict):
    """The lock was run again elsewhere, and its rows were compared with the bundle's."""

    own_record_sha256: Sha256
    """Of the reproducer's own bundle."""
    same_hardware: bool
    positions: Literal["all", "drawn"]
    n: Annotated[int, Field(ge=1)]
    """Positions compared."""
    identical_rows: Count
    flips: Count
    """Positions with another best token than the bundle's candidate."""
    floor_flips: Count
    """The largest number of flips in the bundle's own repeat floor, against which `flips` is judged."""
    verdict: Literal["identical", "within floor", "differs"]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.identical_rows > self.n or self.flips > self.n - self.identical_rows:
            raise ValueError("the counts contradict each other")
        if (self.verdict == "identical") != (self.identical_rows == self.n):
            raise ValueError("`identical` means that every row is")
        return self


class Attestation(_Strict):
    """The whole of `attestation.json`."""

    schema_version: Literal[1] = 1
    kind: Kind
    created: Timestamp
    bundle_id: BundleId
    """The bundle that was checked."""
    record_sha256: Sha256
    """Of that bundle's record."""
    detail: Consistent | Reproduced

    @model_validator(mode="after")
    def _matching(self) -> Self:
        if (self.kind == "reproduced") != isinstance(self.detail, Reproduced):
            raise ValueError(f"`detail` is not that of kind {self.kind}")
        return self

    def to_bytes(self) -> bytes:
        """The content of `attestation.json`."""
        return pretty_json(self.model_dump(mode="json"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attested:
    """An attestation whose files and signatures were checked."""

    attestation: Attestation
    key_ids: tuple[str, ...]
    """Who signed it."""
    folder: Path
    bundle: Path | None
    """The attester's own bundle, where one came with it."""


def attestation_id(attestation: Attestation, *, key_id: str) -> str:
    """Name of an attestation's folder: `<kind>-<12 of record_sha256>-<8 of the key id's digest>`."""
    return _id(attestation.kind, attestation.record_sha256, key_id)


def _id(kind: Kind, record_sha256: str, key_id: str) -> str:
    return f"{kind}-{record_sha256[:12]}-{key_id.rpartition(':')[2][:8]}"


def parse_attestation(data: bytes, *, where: str) -> Attestation:
    """Parse the bytes of an `attestation.json`.

    Raises:
        InvalidInput: not strict JSON, a newer schema, or a value that no attestation has.
    """
    return parse_strictly(Attestation, data, where=where, newest=SCHEMA_VERSION, what="not an attestation: ")


def require_someone_else(bundle: Bundle, *, kind: Kind, key_id: str, results: Path) -> None:
    """See, before work is spent, that a key's word on a bundle would say something and can be written.

    Args:
        bundle: What is to be attested.
        kind: What of it.
        key_id: Whose word.
        results: The results folder, where the bundle may lie as a submission too.

    Raises:
        InvalidInput: the key signed the bundle or its submission, or has attested that already.
        VerificationFailed: a statement there does not hold.
    """
    if key_id in _signers(bundle, results):
        raise InvalidInput(
            "this key signed the bundle or its submission: its word beside that says nothing",
            where=key_id,
            hint="somebody else must attest; without --key it is checked, and nothing is written",
        )
    path = results / ATTESTATIONS / _id(kind, bundle.record.record_sha256, key_id)
    if path.exists():
        told = "a reproduction" if kind == "reproduced" else "the ledger"
        raise InvalidInput(f"this key has attested {told} of this bundle already", where=str(path))


def _signers(bundle: Bundle, results: Path) -> set[str]:
    """Key ids of who signed a bundle, the submission around it, or either as it lies in a results folder."""
    record, folder = bundle.record, bundle.folder.resolve()
    submission = results / SUBMISSIONS / submission_id(name=record.name, record_sha256=record.record_sha256)
    found: set[str] = set()
    for one in (folder, results / bundle.bundle_id, submission / BUNDLE_FOLDER / bundle.bundle_id):
        found |= set(signers_of(one, kind="result"))
    for one in (folder.parent.parent.parent, submission):
        if (one / SUBMISSION_NAME).is_file():
            found |= set(signers_of(one, kind="submission"))
    return found


def write_attestation(attestation: Attestation, *, results: Path, key: SigningKey, bundle: Path | None = None) -> Path:
    """Write and sign `results/attestations/<id>/`, whole or not at all.

    Args:
        attestation: What is attested.
        results: The results folder.
        key: Signs it; its holder vouches for the content.
        bundle: The attester's own bundle, copied beside it; for `reproduced`.

    Raises:
        InvalidInput: this key has attested that already, or `bundle` is not the one that the attestation names.
        MissingPrerequisite: the disk is full; nothing is left behind.
    """
    from suite.signing import sign_folder

    name = attestation_id(attestation, key_id=key.key_id)
    with whole_folder(results / ATTESTATIONS / name, what="an attestation of this kind by this key") as partial:
        (partial / ATTESTATION_NAME).write_bytes(attestation.to_bytes())
        if bundle is not None:
            opened = open_bundle(bundle)
            _require_own(attestation, opened.record.record_sha256, where=str(bundle))
            shutil.copytree(opened.folder, partial / BUNDLE_FOLDER / opened.bundle_id, symlinks=True)
        sign_folder(partial, key, kind="attestation", about=_about(attestation))
    return results / ATTESTATIONS / name


def read_attestation(folder: Path) -> Attested:
    """Read one attestation and check its files and signatures.

    Raises:
        InvalidInput: no attestation.
        VerificationFailed: unsigned, a file or a signature does not match, or its folder has another name than it must.
    """
    where = str(folder / ATTESTATION_NAME)
    attestation = parse_attestation(read_regular(folder / ATTESTATION_NAME, limit_bytes=LIMIT_BYTES), where=where)
    signers = signers_of(folder, kind="attestation")
    if folder.name not in {attestation_id(attestation, key_id=key_id) for key_id in signers}:
        raise VerificationFailed("the folder is not named after its content and signer", where=str(folder))
    bundle = None
    if (folder / BUNDLE_FOLDER).exists():
        bundle = bundle_below(folder / BUNDLE_FOLDER)
        _require_own(attestation, open_bundle(bundle).record.record_sha256, where=str(bundle))
    return Attested(attestation=attestation, key_ids=signers, folder=folder, bundle=bundle)


def read_attestations(results: Path) -> tuple[Attested, ...]:
    """All attestations below a results folder, in order of their folders' names.

    Raises:
        InvalidInput: a folder is no attestation.
        VerificationFailed: one does not hold.
    """
    return tuple(read_attestation(folder) for folder in folders_in(results / ATTESTATIONS))


def _require_own(attestation: Attestation, record_sha256: str, *, where: str) -> None:
    detail = attestation.detail
    if not isinstance(detail, Reproduced) or detail.own_record_sha256 != record_sha256:
        raise InvalidInput("not the bundle that the attestation names as its own", where=where)


def _about(attestation: Attestation) -> Mapping[str, str]:
    return {
        "kind": attestation.kind,
        "bundle_id": attestation.bundle_id,
        "record_sha256": attestation.record_sha256,
    }
