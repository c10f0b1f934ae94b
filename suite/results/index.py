"""`index.json`: one small file that says what lies in a results folder, rebuilt from it and never edited by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.files import pretty_json, read_regular, write_atomic
from suite.results.attestation import Attested, Consistent
from suite.results.layout import ATTESTATIONS, INDEX_NAME
from suite.results.load import Result, Results

SCHEMA_VERSION = 1
_LIMIT_BYTES = 256 << 20


def index_of(results: Results) -> dict[str, Any]:
    """What `index.json` must hold; no time and no path outside the folder, so that a rebuild gives the same bytes."""
    trusted = results.trusted.key_ids
    return {
        "schema_version": SCHEMA_VERSION,
        "results": [result_json(result, folder=results.folder, trusted=trusted) for result in results.results],
    }


def result_json(result: Result, *, folder: Path, trusted: frozenset[str]) -> dict[str, Any]:
    """One result as JSON values.

    Args:
        result: The result.
        folder: The results folder, for relative places.
        trusted: Key ids whose attestations count.
    """
    opened = result.submission
    place = result.bundle if opened is None else opened.folder
    assert place is not None
    return {
        "bundle_id": result.bundle_id,
        "record_sha256": result.record_sha256,
        "origin": result.origin,
        "place": place.relative_to(folder).as_posix(),
        "licence": None if opened is None else opened.submission.licence,
        "signers": list(result.signers),
        "tier": result.tier,
        "withdrawn": result.is_withdrawn,
        "notices": [notice.model_dump(mode="json", include=_NOTICE_KEYS) for notice in result.notices],
        "attestations": [_attestation(one, trusted=trusted) for one in result.attestations],
    }


_NOTICE_KEYS = {"kind", "created", "why", "replaced_by"}


def write_index(results: Results) -> Path:
    """Write `index.json` anew; returns its path."""
    path = results.folder / INDEX_NAME
    write_atomic(path, pretty_json(index_of(results)))
    return path


def index_is_current(results: Results) -> bool:
    """Whether `index.json` is there and is what a rebuild gives.

    Raises:
        VerificationFailed: it is not a regular file, or too large.
    """
    path = results.folder / INDEX_NAME
    return path.exists() and read_regular(path, limit_bytes=_LIMIT_BYTES) == pretty_json(index_of(results))


def _attestation(attested: Attested, *, trusted: frozenset[str]) -> dict[str, Any]:
    detail = attested.attestation.detail
    found = f"{detail.drawn} of {detail.rows} rows" if isinstance(detail, Consistent) else detail.verdict
    return {
        "place": f"{ATTESTATIONS}/{attested.folder.name}",
        "kind": attested.attestation.kind,
        "created": attested.attestation.created,
        "found": found,
        "key_ids": list(attested.key_ids),
        "trusted": bool(trusted & set(attested.key_ids)),
    }
