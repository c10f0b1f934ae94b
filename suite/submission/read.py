"""Reading a submission's folder: its record, its one bundle or its aggregates, and who signed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.bundle.find import bundle_below
from suite.bundle.read import open_bundle
from suite.errors import VerificationFailed
from suite.files import read_regular
from suite.submission.schema import (
    BUNDLE_FOLDER,
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
    signers = set(signers_of(folder))
    if (submission.submitter is None) != (not signers) or (signers and submission.submitter not in signers):
        raise VerificationFailed("`submitter` is not who signed the submission", where=str(folder))
    bundle = bundle_below(folder / BUNDLE_FOLDER)
    if (bundle is None) != (submission.kind == "private"):
        raise VerificationFailed(
            "a full submission holds a bundle, and a private one none", where=str(folder / BUNDLE_FOLDER)
        )
    if bundle is not None:
        opened = open_bundle(bundle)
        if (opened.bundle_id, opened.record.record_sha256) != (submission.bundle_id, submission.record_sha256):
            raise VerificationFailed("not the bundle that the submission names", where=str(bundle))
        signers |= set(signers_of(bundle))
    return OpenSubmission(folder=folder, submission=submission, bundle=bundle, signers=tuple(sorted(signers)))


def signers_of(folder: Path) -> tuple[str, ...]:
    """Key ids of a folder's statement, whose signatures and file hashes are checked; none where it is unsigned.

    Raises:
        VerificationFailed: a signature or a hash does not match.
    """
    from suite.signing import STATEMENT_NAME, verify_folder

    return tuple(sorted(verify_folder(folder).key_ids)) if (folder / STATEMENT_NAME).exists() else ()
