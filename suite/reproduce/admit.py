"""A stranger's bundle is taken in before anything in it is used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.bundle.read import Bundle, open_bundle
from suite.errors import InvalidInput, VerificationFailed
from suite.submission.schema import BUNDLE_FOLDER, SUBMISSION_NAME


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """A bundle that intake accepted."""

    bundle: Bundle
    key_ids: tuple[str, ...]
    """Who signed the bundle or its submission; none where it is unsigned."""


def admit(path: Path) -> Admitted:
    """Take in a bundle, or the one of a submission.

    Args:
        path: A folder; of a bundle inside a submission, the submission is taken in.

    Raises:
        InvalidInput: not a folder, unusable, or without a bundle.
        VerificationFailed: hostile, or it contradicts itself.
    """
    from suite.intake.folder import gate_folder
    from suite.intake.intake import take_in

    path = _submission_of(path) or path
    if path.is_file():
        raise InvalidInput("an archive", where=str(path), hint="unpack it into an empty folder and name that")
    report = take_in(path, results=None)
    report.require_accepted()
    folder = gate_folder(path).bundle if report.what in ("bundle", "submission") else None
    if folder is None:
        raise InvalidInput(f"{report.what}: there is no bundle in it that could be run again", where=str(path))
    bundle = open_bundle(folder)
    if bundle.record.record_sha256 != report.record_sha256:
        raise VerificationFailed("it changed while it was taken in", where=str(path), hint="name a folder at rest")
    bundle.require_unchanged()
    return Admitted(bundle=bundle, key_ids=report.key_ids)


def _submission_of(path: Path) -> Path | None:
    """The submission in which a bundle's folder lies: whose signature covers it."""
    above = path.absolute().parents
    if len(above) > 2 and above[1].name == BUNDLE_FOLDER and (above[2] / SUBMISSION_NAME).is_file():
        return above[2]
    return None
