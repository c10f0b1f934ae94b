"""Where files of an archive are unpacked: each bounded while it is written, none outside one new folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from suite.intake.layout import FILE_NAMES
from suite.intake.limits import Limits
from suite.intake.names import Names, check_path
from suite.intake.refusal import Refused


class Sink:
    """Takes the entries of one archive."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        """`folder` is new and empty."""
        self._folder = folder
        self._limits = limits
        self._names = Names()
        self._left = limits.expanded_bytes
        self._entries = 0

    def add_folder(self, path: str) -> None:
        """An entry for a folder. It is made only when a file lies in it.

        Raises:
            Refused: its name, or too many entries.
        """
        self._count()
        self._names.add(check_path(path, self._limits), folder=True)

    def add_file(self, path: str, size: int, pieces: Iterable[bytes]) -> None:
        """An entry for a regular file.

        Args:
            path: As the archive names it.
            size: Bytes, as the archive says before the content.
            pieces: The content; read no further than the limits.

        Raises:
            Refused: its name, its size, too many entries, or a content of another length.
        """
        self._count()
        parts = check_path(path, self._limits)
        self._names.add(parts, folder=False)
        where = "/".join(parts)
        if parts[-1] not in FILE_NAMES:
            raise Refused(
                "unlisted-file", "a file that may not be there", where=where, hint="send the folder as written"
            )
        if size > self._left:
            raise Refused("too-large", f"more than {self._limits.expanded_bytes:,} bytes together", where=where)
        target = self._folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            for piece in pieces:
                written += len(piece)
                if written > size:
                    break
                stream.write(piece)
        if written != size:
            more = "more" if written > size else "fewer"
            raise Refused("size-lie", f"holds {more} bytes than the {size:,} that the archive says", where=where)
        self._left -= size

    def _count(self) -> None:
        self._entries += 1
        if self._entries > self._limits.files:
            raise Refused("too-many-files", f"more than {self._limits.files} entries")
