"""The evidence packs that the submission around a bundle names by URL, hash and size."""

from __future__ import annotations

from pathlib import Path

from suite.files import read_regular
from suite.submission.schema import (
    BUNDLE_FOLDER,
    SUBMISSION_LIMIT_BYTES,
    SUBMISSION_NAME,
    EvidencePack,
    parse_submission,
)


def named_evidence(bundle: Path) -> tuple[EvidencePack, ...]:
    """Packs of both sides, the reference's first; empty where the bundle lies in no submission, or that names none.

    Raises:
        InvalidInput, VerificationFailed: the submission's record cannot be used.
    """
    folder = bundle.resolve()
    around = folder.parent.parent
    if around.name != BUNDLE_FOLDER or not (around.parent / SUBMISSION_NAME).is_file():
        return ()
    path = around.parent / SUBMISSION_NAME
    submission = parse_submission(read_regular(path, limit_bytes=SUBMISSION_LIMIT_BYTES), where=str(path))
    if submission.evidence is None:
        return ()
    return tuple(pack for pack in (submission.evidence.reference, submission.evidence.candidate) if pack is not None)
