"""A folder read as if it were a machine's root: links stay inside, reads are bounded, trouble becomes a finding."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_FINDINGS = 500
MAX_LINKS = 40
MAX_PATH_CHARACTERS = 4096
MAX_TEXT_CHARACTERS = 512
_READ_BYTES = 1 << 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """`text` with control, direction and lone surrogate characters as escapes, cut at 512 characters."""
    text = _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text.strip(" \t\r\n"))
    return text if len(text) <= MAX_TEXT_CHARACTERS else text[: MAX_TEXT_CHARACTERS - 1] + "…"


class Findings:
    """What could not be read or looks wrong; at most 500 are kept, the rest are counted."""

    def __init__(self) -> None:
        self._items: set[tuple[str, str, str]] = set()
        self._dropped = 0

    def add(self, code: str, path: str, detail: str) -> None:
        """Record one finding; the same one twice is kept once."""
        if len(self._items) < MAX_FINDINGS:
            self._items.add((code, clean(path), clean(detail)))
        else:
            self._dropped += 1

    def as_list(self) -> list[dict[str, str]]:
        """Sorted findings with the keys code, path and detail."""
        items = [{"code": code, "path": path, "detail": detail} for code, path, detail in sorted(self._items)]
        if self._dropped:
            items.append({"code": "more_findings", "path": "", "detail": f"{self._dropped} further findings not kept"})
        return items


class Tree:
    """Reads below one folder. Every path is relative to it, with `/` between parts and no leading one.

    Args:
        root: The folder that stands for `/`. Absolute links inside lead back into it, and `..` cannot leave it.
        findings: Where trouble is recorded.
    """

    def __init__(self, root: Path, findings: Findings) -> None:
        self.root = os.path.realpath(root)
        self.findings = findings
        self._aliases: list[tuple[str, str]] = []
        self._links: dict[str, str | None] = {}
        self._folders: dict[str, str | None] = {}

    def alias(self, folder: str, name: str) -> None:
        """From now on show `folder` as `name`, so that a user's home never enters a result."""
        if all(known != folder for known, _ in self._aliases):
            self._aliases.append((folder, name))
            self._aliases.sort(key=lambda item: (-len(item[0]), item[0]))

    def show(self, path: str) -> str:
        """How `path` is written in results."""
        for folder, name in self._aliases:
            if path == folder:
                return name
            if path.startswith(f"{folder}/"):
                return clean(name + path[len(folder) :])
        return clean(path)

    def inside(self, path: Path) -> str | None:
        """The relative, canonical path of a path given by the caller; None if it lies elsewhere."""
        real = os.path.realpath(path)
        prefix = self.root.rstrip("/") + "/"
        return real[len(prefix) :] if real.startswith(prefix) else None

    def canonical(self, path: str) -> str | None:
        """`path` with the links of its folders, not its own, followed inside the root. It need not exist.

        None (and a finding) for a loop of links or an overlong path.
        """
        folder, _, name = path.strip("/").rpartition("/")
        if name in ("", ".", ".."):
            return self._follow(path)
        if folder not in self._folders:
            self._folders[folder] = self._follow(folder)
        real = self._folders[folder]
        return None if real is None else f"{real}/{name}" if real else name

    def resolve(self, path: str) -> str | None:
        """`path` with every link followed inside the root, its own too."""
        return self._follow(path)

    def _follow(self, path: str) -> str | None:
        if len(path) > MAX_PATH_CHARACTERS:
            self.findings.add("path_too_long", path[:80], f"{len(path)} characters")
            return None
        waiting = path.split("/")[::-1]
        done: list[str] = []
        num_links = 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if done:
                    done.pop()
                continue
            done.append(part)
            target = self._link("/".join(done))
            if target is None:
                continue
            num_links += 1
            if num_links > MAX_LINKS:
                self.findings.add("link_loop", self.show(path), "more than 40 symbolic links")
                return None
            done = [] if target.startswith("/") else done[:-1]
            waiting.extend(target.split("/")[::-1])
        return "/".join(done)

    def _link(self, path: str) -> str | None:
        if path not in self._links:
            try:
                self._links[path] = os.readlink(f"{self.root}/{path}")  # noqa: PTH115 (text paths throughout)
            except (OSError, ValueError):
                self._links[path] = None
        return self._links[path]

    def is_folder(self, path: str) -> bool:
        """Whether `path`, with links followed inside the root, is a folder."""
        real = self.resolve(path)
        return real is not None and os.path.isdir(f"{self.root}/{real}")  # noqa: PTH112 (text paths throughout)

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """The entries of `folder` sorted by name; none if it does not exist."""
        real = self.resolve(folder)
        if real is None:
            return []
        try:
            with os.scandir(f"{self.root}/{real}") as found:
                return sorted(found, key=lambda entry: entry.name)
        except (OSError, ValueError) as error:
            self._trouble(error, folder)
            return []

    def walk(self, folder: str, *, skip: frozenset[str], max_entries: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Every non-folder below the canonical `folder`, as (path, entry), in sorted order; links are not followed.

        Folders named in `skip` are left out. After `max_entries` the walk ends with a finding.
        """
        num_entries = 0
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            below: list[str] = []
            for entry in self.entries(current):
                num_entries += 1
                if num_entries > max_entries:
                    self.findings.add("walk_cut", self.show(folder), f"more than {max_entries} entries")
                    return
                path = f"{current}/{entry.name}" if current else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path, entry
                elif entry.name not in skip:
                    below.append(path)
            waiting.extend(reversed(below))

    def read(self, path: str, *, max_bytes: int, cut_is_finding: bool = True) -> bytes | None:
        """The first `max_bytes` of a regular file; None if absent, unreadable or not a regular file."""
        descriptor = self._open(path)
        if descriptor is None:
            return None
        try:
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                blocks: list[bytes] = []
                left = max_bytes + 1
                while left and (block := stream.read(min(left, _READ_BYTES))):
                    blocks.append(block)
                    left -= len(block)
        except OSError as error:
            self._trouble(error, path)
            return None
        if not left and cut_is_finding:
            self.findings.add("file_cut", self.show(path), f"only the first {max_bytes} bytes were read")
        return b"".join(blocks)[:max_bytes]

    def head(self, path: str, size_bytes: int) -> bytes:
        """The first bytes of a regular file; empty if there are none to be had."""
        return self.read(path, max_bytes=size_bytes, cut_is_finding=False) or b""

    def sha256(self, path: str) -> str | None:
        """Lower-case hex SHA-256 of a regular file, read in pieces."""
        descriptor = self._open(path)
        if descriptor is None:
            return None
        digest = hashlib.sha256()
        buffer = memoryview(bytearray(_READ_BYTES))
        try:
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                while count := stream.readinto(buffer):
                    digest.update(buffer[:count])
        except OSError as error:
            self._trouble(error, path)
            return None
        return digest.hexdigest()

    def _open(self, path: str) -> int | None:
        real = self.resolve(path)
        if real is None:
            return None
        try:
            # Non-blocking, so that a named pipe in a hostile folder cannot hold the collector up.
            descriptor = os.open(f"{self.root}/{real}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            self._trouble(error, path)
            return None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        self.findings.add("not_a_file", self.show(path), "not a regular file")
        return None

    def _trouble(self, error: Exception, path: str) -> None:
        number = getattr(error, "errno", None)
        if number not in (errno.ENOENT, errno.ENOTDIR):
            reason: Any = os.strerror(number) if number else error
            self.findings.add("unreadable", self.show(path), str(reason))
