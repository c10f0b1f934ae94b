"""Honest submissions and attestations of a real bundle."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from suite.bundle.read import open_bundle
from suite.results.attestation import Attestation, Consistent, Reproduced, attestation_id
from suite.signing import SigningKey, sign_folder
from suite.submission.private import aggregate
from suite.submission.schema import Submission, submission_id

CREATED = "2026-11-30T00:00:00Z"


def submission(target: Path, folder: Path, key: SigningKey | None, **changes: Any) -> Path:
    """`<target>/<id>/` with a whole bundle."""
    bundle = open_bundle(folder)
    name = submission_id(name=bundle.record.name, record_sha256=bundle.record.record_sha256)
    shutil.copytree(folder, target / name / "bundle" / bundle.record.name / folder.name)
    return _write(target / name, bundle.bundle_id, bundle.record.record_sha256, key, kind="full", **changes)


def private(target: Path, folder: Path, key: SigningKey | None, **changes: Any) -> Path:
    """`<target>/<id>/` with aggregates alone."""
    bundle = open_bundle(folder)
    found = aggregate(bundle, b"k" * 32)
    name = submission_id(name=bundle.record.name, record_sha256=found.record_sha256)
    (target / name).mkdir(parents=True)
    (target / name / "aggregates.json").write_bytes(found.to_bytes())
    return _write(target / name, found.bundle_id, found.record_sha256, key, kind="private", **changes)


def _write(
    folder: Path, bundle_id: str, record_sha256: str, key: SigningKey | None, *, kind: str, **changes: Any
) -> Path:
    fields = {
        "schema_version": 1,
        "id": folder.name,
        "kind": kind,
        "created": CREATED,
        "bundle_id": bundle_id,
        "record_sha256": record_sha256,
        "licence": "CC-BY-4.0",
        "session_public": kind == "full",
        "evidence": None,
        "commitment": None,
        "submitter": None if key is None else key.verify_key.key_id,
        "note": "",
    }
    record = Submission.model_validate(fields | changes)
    (folder / "submission.json").write_bytes(record.to_bytes())
    if key is not None:
        sign_folder(folder, key, kind="submission")
    return folder


def attestation(target: Path, folder: Path, key: SigningKey | None, *, own: Path | None = None) -> Path:
    """Somebody's word on the bundle in `folder`, with their own bundle where they have one."""
    bundle = open_bundle(folder)
    n = bundle.record.headlines.n
    detail: Consistent | Reproduced = Consistent(method="whole", rows=n, drawn=n, nonce=None, root=None)
    if own is not None:
        detail = Reproduced(
            own_record_sha256=open_bundle(own).record.record_sha256,
            same_hardware=True,
            positions="all",
            n=n,
            identical_rows=n,
            flips=0,
            floor_flips=0,
            verdict="identical",
        )
    found = Attestation(
        kind="consistent" if own is None else "reproduced",
        created=CREATED,
        bundle_id=bundle.bundle_id,
        record_sha256=bundle.record.record_sha256,
        detail=detail,
    )
    key_id = "ed25519:" + "0" * 64 if key is None else key.verify_key.key_id
    written = target / attestation_id(found, key_id=key_id)
    written.mkdir(parents=True)
    (written / "attestation.json").write_bytes(found.to_bytes())
    if own is not None:
        shutil.copytree(own, written / "bundle" / own.parent.name / own.name)
    if key is not None:
        sign_folder(written, key, kind="attestation")
    return written
