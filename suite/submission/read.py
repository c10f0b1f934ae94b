"""Reading a submission's folder: its record, its one bundle or its aggregates, and who signed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.bundle.find import bundle_below
from suite.bundle.read import open_bundle
from suite.errors import VerificationFailed
from suite.files import read_regular
from suite.signing import STATEMENT_NAME, STATEMENT_NAMES, Kind, verify_folder
from suite.submission.private import AGGREGATES_LIMIT_BYTES, Aggregates, parse_aggregates
from suite.submission.schema import (
    AGGREGATES_NAME,
    BUNDLE_FOLDER,
    COMMITMENT_NAME,
    SUBMISSION_LIMIT_BYTES,
    SUBMISSION_NAME,
    Submission,
    parse_submission,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenSubmission:
    """A submission whose record and signature were checked; its bundle's content was not."""

    folder: Path
    submission: Submission
    bundle: Path | None
    """The bundle's folder; None for a private submission."""
    aggregates: Aggregates | None
    """Of a private submission."""
    signers: tuple[str, ...]
    """Key ids of everyone who signed the submission or the bundle in it, sorted."""


def open_submission(folder: Path) -> OpenSubmission:
    """Read a submission.

    Raises:
        InvalidInput: no submission, or no bundle where there must be one.
        VerificationFailed: a signature or hash does not match, the folder has another name than its record, or the
            bundle is another one than the record names.
    """
    data = read_regular(folder / SUBMISSION_NAME, limit_bytes=SUBMISSION_LIMIT_BYTES)
    submission = parse_submission(data, where=str(folder / SUBMISSION_NAME))
    if folder.name != submission.id:
        raise VerificationFailed(f"the folder is not called {submission.id}", where=str(folder))
    signers = set(signers_of(folder, kind="submission"))
    if (submission.submitter is None) != (not signers) or (signers and submission.submitter not in signers):
        raise VerificationFailed("`submitter` is not who signed the submission", where=str(folder))
    _require_only(folder, submission)
    bundle = aggregates = None
    if submission.kind == "private":
        data = read_regular(folder / AGGREGATES_NAME, limit_bytes=AGGREGATES_LIMIT_BYTES)
        aggregates = parse_aggregates(data, where=str(folder / AGGREGATES_NAME))
        named = (aggregates.bundle_id, aggregates.record_sha256)
    else:
        bundle = bundle_below(folder / BUNDLE_FOLDER)
        opened = open_bundle(bundle)
        named = (opened.bundle_id, opened.record.record_sha256)
        signers |= set(signers_of(bundle, kind="result"))
    if named != (submission.bundle_id, submission.record_sha256):
        raise VerificationFailed("holds another result than the one it names", where=str(folder))
    return OpenSubmission(
        folder=folder, submission=submission, bundle=bundle, aggregates=aggregates, signers=tuple(sorted(signers))
    )


def _require_only(folder: Path, submission: Submission) -> None:
    """Refuse a submission with other parts than its kind has."""
    parts = {SUBMISSION_NAME, AGGREGATES_NAME if submission.kind == "private" else BUNDLE_FOLDER}
    if submission.commitment is not None:
        parts.add(COMMITMENT_NAME)
    found = {path.name for path in folder.iterdir()} - set(STATEMENT_NAMES)
    for name in sorted(found ^ parts):
        told = "missing" if name in parts else f"no part of a {submission.kind} submission"
        raise VerificationFailed(told, where=f"{folder.name}/{ascii(name)[1:-1]}")


def signers_of(folder: Path, *, kind: Kind) -> tuple[str, ...]:
    """Key ids of a folder's statement, whose signatures and file hashes are checked; none where it is unsigned.

    Args:
        folder: A bundle's, a submission's or an attestation's.
        kind: What the statement must be of: who signs one thing does not vouch for another.

    Raises:
        VerificationFailed: a signature or a hash does not match, or the statement is of another kind.
    """
    if not (folder / STATEMENT_NAME).exists():
        return ()
    signed = verify_folder(folder)
    if signed.statement.kind != kind:
        raise VerificationFailed(
            f"its statement is of kind {signed.statement.kind}, not {kind}", where=str(folder / STATEMENT_NAME)
        )
    return signed.key_ids
