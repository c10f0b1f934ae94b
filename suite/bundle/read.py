"""Reading a bundle as hostile input: regular files at known names, bounded sizes, strict JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.bundle.schema import RECORD_LIMIT_BYTES, RECORD_NAME, BundleRecord, parse_record, size_limit
from suite.errors import InvalidInput, VerificationFailed
from suite.files import read_regular, sha256_bytes, strict_json
from suite.manifest.lock import Lock, parse_lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A bundle whose record has been read; nothing else of it is trusted yet."""

    folder: Path
    record: BundleRecord

    @property
    def bundle_id(self) -> str:
        """`<name>/<folder>`, as other bundles name it."""
        return f"{self.record.name}/{self.folder.name}"

    def read(self, name: str) -> bytes:
        """The bytes of one file.

        Raises:
            VerificationFailed: absent, not a regular file, or larger than a bundle may hold of it.
        """
        return read_file(self.folder, name)

    def require_unchanged(self, *names: str) -> None:
        """Check that files are those that the record names; without names all of them.

        Raises:
            VerificationFailed: as `read`, or one has another hash.
        """
        for name in names or sorted(self.record.files):
            if sha256_bytes(self.read(name)) != self.record.files[name]:
                raise VerificationFailed(
                    "not the file that the record names", where=f"{self.bundle_id}/{name}", hint="see suite verify"
                )

    def json_object(self, name: str) -> dict[str, Any]:
        """One file as a strict JSON object.

        Raises:
            VerificationFailed: as `read`.
            InvalidInput: not strict JSON, or not an object.
        """
        value = strict_json(self.read(name), where=name)
        if not isinstance(value, dict):
            raise InvalidInput("not a JSON object", where=name)
        return value

    def lock(self, name: str = "lock.json") -> Lock:
        """One of the two locks.

        Raises:
            VerificationFailed: as `read`.
            InvalidInput: not a lock.
        """
        return parse_lock(self.read(name), where=name)


def open_bundle(folder: Path) -> Bundle:
    """Read the record of a bundle.

    Raises:
        InvalidInput: no bundle is there, or its record cannot be used.
        VerificationFailed: the record is not a regular file, too large, or its seal does not match.
    """
    require_bundle(folder)
    folder = folder.resolve()
    return Bundle(folder=folder, record=parse_record(read_file(folder, RECORD_NAME), where=RECORD_NAME))


def require_bundle(folder: Path) -> None:
    """Check that a folder has a bundle's record.

    Raises:
        InvalidInput: it has none; the latest bundle below it is named.
    """
    if (folder / RECORD_NAME).exists():
        return
    below = sorted(path.parent for depth in (1, 2, 3) for path in folder.glob("*/" * depth + RECORD_NAME))
    latest = max(below, key=lambda path: path.name, default=None)
    raise InvalidInput(
        f"no bundle here ({RECORD_NAME} is absent)" if folder.is_dir() else "no such folder",
        where=str(folder),
        hint="name a bundle's folder" + ("" if latest is None else f"; the latest below this one is {latest}"),
    )


def read_file(folder: Path, name: str) -> bytes:
    """One known file of a bundle's folder, opened without following links.

    Raises:
        VerificationFailed: absent, a link or another special file, or larger than a bundle may hold of it.
    """
    limit = RECORD_LIMIT_BYTES if name == RECORD_NAME else size_limit(name)
    if limit is None:
        raise VerificationFailed("no bundle holds such a file", where=name)
    return read_regular(folder / name, limit_bytes=limit, where=name)
