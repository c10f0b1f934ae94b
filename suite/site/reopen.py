"""A bundle once more, after its facts were taken from it: only seen to be the same, not checked again."""

from __future__ import annotations

from pathlib import Path

from suite.bundle.read import Bundle, read_file
from suite.bundle.schema import RECORD_NAME, BundleRecord
from suite.errors import VerificationFailed
from suite.files import sha256_bytes
from suite.manifest.lock import Lock, parse_lock
from suite.site.facts import BundleFacts


def reopened(facts: BundleFacts) -> Bundle:
    """The bundle, with the record that its facts were taken from.

    Raises:
        VerificationFailed: its record is another one now, or cannot be read.
    """
    folder = Path(facts.folder)
    data = read_file(folder, RECORD_NAME)
    if sha256_bytes(data) != facts.record_file_sha256:
        raise VerificationFailed("the bundle has changed while the site was built", where=facts.bundle_id)
    return Bundle(folder=folder.resolve(), record=BundleRecord.model_validate_json(data))


def reopened_lock(facts: BundleFacts, name: str) -> Lock:
    """One of its two locks.

    Raises:
        VerificationFailed: it is another one now, or cannot be read.
    """
    data = read_file(Path(facts.folder), name)
    if sha256_bytes(data) != dict(facts.file_hashes).get(name):
        raise VerificationFailed("the lock has changed while the site was built", where=facts.bundle_id)
    return parse_lock(data, where=name)
