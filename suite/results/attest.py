"""Attesting that a result is consistent: its whole ledger was computed again from its evidence."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.capture.rows import RowFactory
from suite.errors import InvalidInput, MissingPrerequisite
from suite.observer import Observer
from suite.records import timestamp
from suite.results.attestation import Attestation, Consistent, write_attestation
from suite.results.load import Result

if TYPE_CHECKING:
    from suite.signing import SigningKey


def attest_consistent(
    result: Result,
    *,
    results: Path,
    key: SigningKey,
    captures: Path,
    replay: RowFactory | None,
    now: datetime,
    observer: Observer | None = None,
) -> Path:
    """Recompute every row of a result's ledger and write the attestation; returns its folder.

    Args:
        result: Any but a private one.
        results: The results folder.
        key: Signs the attestation.
        captures: A capture store that holds both sides' evidence.
        replay: Gives the rows of `hidden` captures.
        now: The present.
        observer: Told of progress.

    Raises:
        InvalidInput: a private result, of which nothing can be recomputed; or this key has attested it already.
        VerificationFailed: something does not follow.
        MissingPrerequisite: the evidence is not at hand.
    """
    if result.bundle is None:
        raise InvalidInput(
            "a private result holds nothing that could be recomputed",
            where=result.bundle_id,
            hint="it stays self-reported",
        )
    report = verify_bundle(result.bundle, captures=captures, replay=replay, observer=observer)
    report.require_passed()
    done = next(check for check in report.checks if check.name == "evidence")
    if done.outcome != "passed":
        raise MissingPrerequisite(
            done.detail, where=result.bundle_id, hint="suite reference pull EVIDENCE_PACK, for both sides"
        )
    rows = open_bundle(result.bundle).record.headlines.n
    attestation = Attestation(
        kind="consistent",
        created=timestamp(now),
        bundle_id=result.bundle_id,
        record_sha256=result.record_sha256,
        detail=Consistent(method="whole", rows=rows, drawn=rows, nonce=None, root=None),
    )
    return write_attestation(attestation, results=results, key=key)
