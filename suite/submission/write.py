"""Writing a submission: a folder ready for a pull request, or one archive; whole or not at all, never over another."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from suite.bundle.schema import RECORD_NAME
from suite.errors import InvalidInput, SuiteError
from suite.files import read_regular
from suite.folders import made_folder, whole_folder
from suite.intake.intake import take_in
from suite.records import first_problem, timestamp
from suite.signing import STATEMENT_NAMES, SigningKey, sign_folder
from suite.submission.archive import require_archive_name, write_archive
from suite.submission.disclosure import Disclosure, disclosures, evidence_disclosures
from suite.submission.preflight import Preflight, Terms
from suite.submission.private import aggregate, keyed_record
from suite.submission.schema import (
    AGGREGATES_NAME,
    BUNDLE_FOLDER,
    COMMITMENT_NAME,
    SUBMISSION_LIMIT_BYTES,
    SUBMISSION_NAME,
    Submission,
    parse_submission,
    submission_id,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """What was written."""

    path: Path
    """The folder, or the archive."""
    submission: Submission


Agree = Callable[[Submission, tuple[Disclosure, ...]], None]
"""Shown everything that becomes public; raises to stop."""


def write_submission(
    checked: Preflight,
    terms: Terms,
    *,
    key: SigningKey | None,
    owner_key: bytes | None,
    agree: Agree,
    now: datetime,
    out: Path | None = None,
    archive: Path | None = None,
) -> Submitted:
    """Write a submission, once its owner has seen what is in it and intake has taken it in.

    Args:
        checked: The bundle.
        terms: Its owner's words; those of the preflight.
        key: Signs it; None leaves it unsigned.
        owner_key: Of a private submission.
        agree: Asked with the finished files, before they get their name.
        now: The present.
        out: Folder for `<id>/`; this or `archive`.
        archive: The archive's file.

    Raises:
        InvalidInput: it exists already, or the licence or the note is none.
        VerificationFailed: intake refuses it.
        MissingPrerequisite: the disk is full; nothing is left behind.
    """
    assert (out is None) != (archive is None)
    name = submission_id(name=checked.bundle.record.name, record_sha256=_record_sha256(checked, terms, owner_key))
    if archive is None:
        assert out is not None
        final = out / name
        _require_new(final)
        with whole_folder(final, what="this submission", hint="what is submitted is not changed") as folder:
            submission = _fill(folder, checked, terms, key=key, owner_key=owner_key, now=now)
            agree(submission, (*disclosures(folder), *evidence_disclosures(terms.evidence)))
            take_in(folder, results=None).require_accepted()
        return Submitted(path=final, submission=submission)
    require_archive_name(archive)
    with (
        made_folder(archive.parent),
        tempfile.TemporaryDirectory(dir=archive.parent, prefix=".submission-") as temporary,
    ):
        folder = Path(temporary) / name
        folder.mkdir()
        submission = _fill(folder, checked, terms, key=key, owner_key=owner_key, now=now)
        agree(submission, (*disclosures(folder), *evidence_disclosures(terms.evidence)))
        packed = Path(temporary) / archive.name
        write_archive(folder, packed)
        take_in(packed, results=None).require_accepted()
        require_archive_name(archive)
        packed.rename(archive)
    return Submitted(path=archive, submission=submission)


def _record_sha256(checked: Preflight, terms: Terms, owner_key: bytes | None) -> str:
    """`record_sha256` of the submission: keyed where it is private."""
    record = checked.bundle.record
    if not terms.private:
        return record.record_sha256
    assert owner_key is not None
    return keyed_record(record, owner_key)


def _require_new(final: Path) -> None:
    """Refuse a submission that is there, and say which it is."""
    if not os.path.lexists(final):
        return
    try:
        data = read_regular(final / SUBMISSION_NAME, limit_bytes=SUBMISSION_LIMIT_BYTES)
        there = parse_submission(data, where=str(final / SUBMISSION_NAME))
    except SuiteError:
        return  # no submission: its name is taken all the same
    raise InvalidInput(
        f"a {there.kind} submission of this bundle exists already: of {there.created[:10]}, licence {there.licence}, "
        + (f"signed by {there.submitter}" if there.submitter else "unsigned"),
        where=str(final),
        hint="what is submitted is not changed; `suite result correct` and `withdraw` add to it",
    )


def _fill(
    folder: Path,
    checked: Preflight,
    terms: Terms,
    *,
    key: SigningKey | None,
    owner_key: bytes | None,
    now: datetime,
) -> Submission:
    bundle, record = checked.bundle, checked.bundle.record
    bundle_id, record_sha256 = bundle.bundle_id, _record_sha256(checked, terms, owner_key)
    if terms.private:
        assert owner_key is not None
        aggregates = aggregate(bundle, owner_key)
        bundle_id = aggregates.bundle_id
        (folder / AGGREGATES_NAME).write_bytes(aggregates.to_bytes())
    else:
        target = folder / BUNDLE_FOLDER / bundle_id
        target.mkdir(parents=True)
        signed = [name for name in STATEMENT_NAMES if (bundle.folder / name).exists()]
        for name in sorted((RECORD_NAME, *record.files, *signed)):
            # Nothing but the content: no link, no mode, no time.
            shutil.copyfile(bundle.folder / name, target / name, follow_symlinks=False)
        if terms.commitment is not None:
            shutil.copyfile(terms.commitment, folder / COMMITMENT_NAME)
    try:
        submission = Submission(
            schema_version=1,
            id=folder.name,
            kind="private" if terms.private else "full",
            created=timestamp(now),
            bundle_id=bundle_id,
            record_sha256=record_sha256,
            licence=checked.licence,
            session_public=not terms.private,
            evidence=terms.evidence,
            commitment=checked.commitment,
            submitter=None if key is None else key.key_id,
            note=terms.note,
        )
    except ValidationError as error:
        raise InvalidInput(first_problem(error), where=folder.name, hint="a note is plain words") from error
    (folder / SUBMISSION_NAME).write_bytes(submission.to_bytes())
    if key is not None:
        about = {"id": submission.id, "bundle_id": bundle_id, "record_sha256": record_sha256}
        sign_folder(folder, key, kind="submission", about=about, created=now)
    return submission
