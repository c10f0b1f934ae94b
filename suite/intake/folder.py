"""The gate of a folder: regular files at listed names within bounds, or a refusal, before anything in it is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.errors import SuiteError
from suite.intake.layout import file_limit, is_folder, marker_of
from suite.intake.limits import LIMITS, Limits
from suite.intake.names import Names, check_path
from suite.intake.refusal import Refused, Unusable

_KINDS = {
    stat.S_IFLNK: ("link", "a symbolic link"),
    stat.S_IFIFO: ("fifo", "a named pipe"),
    stat.S_IFCHR: ("device", "a device"),
    stat.S_IFBLK: ("device", "a device"),
    stat.S_IFSOCK: ("socket", "a socket"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A folder that passed the gate."""

    folder: Path
    marker: str
    """`submission.json`, `attestation.json` or `bundle.json`."""
    files: Mapping[str, int]
    """Relative POSIX path to size in bytes."""

    @property
    def bundle(self) -> Path | None:
        """The bundle in it, or itself; None where it holds none."""
        if self.marker == "bundle.json":
            return self.folder
        records = [name for name in self.files if name.endswith("/bundle.json")]
        return self.folder.joinpath(records[0]).parent if records else None


def gate_folder(folder: Path, limits: Limits = LIMITS) -> Tree:
    """Look at every name, kind and size below a folder; no link is followed and no file is opened.

    Raises:
        Unusable: not a folder, or one that holds neither bundle, submission nor attestation.
        Refused: something in it may not be there; the first such thing.
    """
    try:
        kind = folder.lstat().st_mode
    except OSError as error:
        raise Unusable("nothing-here", f"cannot be looked at: {error.strerror}", where=str(folder)) from error
    if not stat.S_ISDIR(kind):
        raise _special(kind, str(folder)) or Unusable("nothing-here", "not a folder", where=str(folder))
    return _Walk(folder, limits).tree()


class _Walk:
    """One pass over a folder."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._names = Names()
        self._files: dict[str, int] = {}
        self._entries = 0
        self._bytes = 0

    def tree(self) -> Tree:
        entries = self._entries_of(self._folder)
        for entry in entries:
            check_path(entry.name, self._limits)
        self._marker = marker_of([entry.name for entry in entries])
        self._walk(entries, ())
        bundles = [name for name in self._files if name.endswith("/bundle.json")]
        if len(bundles) > 1:
            raise Refused("two-bundles", f"holds {len(bundles)} bundles; at most one is sent at a time")
        return Tree(folder=self._folder, marker=self._marker, files=dict(sorted(self._files.items())))

    def _entries_of(self, folder: Path) -> list[os.DirEntry[str]]:
        found: list[os.DirEntry[str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > self._limits.files:
                    raise Refused("too-many-files", f"more than {self._limits.files} files and folders")
                found.append(entry)
        return sorted(found, key=lambda entry: entry.name)

    def _walk(self, entries: list[os.DirEntry[str]], above: tuple[str, ...]) -> None:
        for entry in entries:
            path = "/".join((*above, entry.name))
            parts = check_path(path, self._limits)
            status = entry.stat(follow_symlinks=False)
            folder = stat.S_ISDIR(status.st_mode)
            self._names.add(parts, folder=folder)
            if folder:
                if not is_folder(self._marker, parts):
                    raise Refused("unlisted-folder", "a folder that may not be there", where=path)
                self._walk(self._entries_of(Path(entry.path)), parts)
            elif error := _special(status.st_mode, path):
                raise error
            else:
                self._file(parts, path, status.st_size)

    def _file(self, parts: tuple[str, ...], path: str, size: int) -> None:
        limit = file_limit(self._marker, parts, self._limits)
        if limit is None:
            raise Refused(
                "unlisted-file", "a file that may not be there", where=path, hint="send the folder as written"
            )
        if size > limit:
            raise Refused("file-too-large", f"{size:,} bytes; at most {limit:,} are taken in", where=path)
        self._bytes += size
        if self._bytes > self._limits.expanded_bytes:
            raise Refused("too-large", f"more than {self._limits.expanded_bytes:,} bytes together")
        self._files[path] = size


def _special(mode: int, where: str) -> SuiteError | None:
    code, what = _KINDS.get(stat.S_IFMT(mode), ("", ""))
    return Refused(code, f"{what}; only regular files are taken in", where=where) if code else None
