"""A bundle once more, after its facts were taken from it: only seen to be the same, not checked again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.bundle.read import Bundle, read_file
from suite.bundle.schema import RECORD_NAME, BundleRecord
from suite.errors import VerificationFailed
from suite.files import sha256_bytes
from suite.manifest.lock import Lock, parse_lock
from suite.site.facts import BundleFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class _Held(Bundle):
    """A bundle of which each lock and receipt is parsed once, however many parts of a page ask for it."""

    _locks: dict[str, Lock] = field(default_factory=dict)
    _objects: dict[str, dict[str, Any]] = field(default_factory=dict)

    def lock(self, name: str = "lock.json") -> Lock:
        """As that of any bundle."""
        if name not in self._locks:
            self._locks[name] = Bundle.lock(self, name)
        return self._locks[name]

    def json_object(self, name: str) -> dict[str, Any]:
        """As that of any bundle; not to be changed."""
        if name not in self._objects:
            self._objects[name] = Bundle.json_object(self, name)
        return self._objects[name]


def reopened(facts: BundleFacts) -> Bundle:
    """The bundle, with the record that its facts were taken from.

    Raises:
        VerificationFailed: its record is another one now, or cannot be read.
    """
    folder = Path(facts.folder)
    data = read_file(folder, RECORD_NAME)
    if sha256_bytes(data) != facts.record_file_sha256:
        raise VerificationFailed("the bundle has changed while the site was built", where=facts.bundle_id)
    return _Held(folder=folder.resolve(), record=BundleRecord.model_validate_json(data))


def reopened_file(facts: BundleFacts, name: str) -> bytes:
    """One of its files.

    Raises:
        VerificationFailed: it is another one now, or cannot be read.
    """
    data = read_file(Path(facts.folder), name)
    if sha256_bytes(data) != dict(facts.file_hashes).get(name):
        raise VerificationFailed(f"{name} has changed while the site was built", where=facts.bundle_id)
    return data


def reopened_lock(facts: BundleFacts, name: str) -> Lock:
    """One of its two locks.

    Raises:
        VerificationFailed: it is another one now, or cannot be read.
    """
    return parse_lock(reopened_file(facts, name), where=name)
