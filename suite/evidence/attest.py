"""Saying under one's own name that a bundle's ledger follows from its evidence, whole or at rows drawn afterwards."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from suite.bundle.read import Bundle
from suite.records import timestamp
from suite.results.attestation import Attestation, Consistent, require_someone_else, write_attestation

if TYPE_CHECKING:
    from suite.evidence.challenge import Challenge
    from suite.signing.keys import SigningKey


def attest_evidence(
    bundle: Bundle, *, challenge: Challenge | None, key: SigningKey, results: Path, now: datetime
) -> Path:
    """Write the attestation of a check that passed; returns its folder.

    Args:
        bundle: What was checked.
        challenge: What was drawn; None where every row was recomputed.
        key: Signs it.
        results: The results folder.
        now: The present.

    Raises:
        InvalidInput: this key signed the bundle or its submission, or has attested it already.
        MissingPrerequisite: the disk is full.
    """
    require_someone_else(bundle, kind="consistent", key_id=key.key_id, results=results)
    rows = bundle.record.headlines.n
    attestation = Attestation(
        kind="consistent",
        created=timestamp(now),
        bundle_id=bundle.bundle_id,
        record_sha256=bundle.record.record_sha256,
        detail=Consistent(
            method="whole" if challenge is None else "drawn",
            rows=rows,
            drawn=rows if challenge is None else challenge.draw,
            nonce=None if challenge is None else challenge.nonce,
            root=None if challenge is None else challenge.root,
        ),
    )
    return write_attestation(attestation, results=results, key=key)
