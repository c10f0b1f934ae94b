"""Paths as archives and folders may hold them: relative, ASCII, and the same on every file system."""

from __future__ import annotations

import re
import unicodedata

from suite.intake.limits import Limits
from suite.intake.refusal import Refused

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Names that another operating system takes for a device.
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PLAIN_HINT = "names hold ASCII letters, digits, dot, hyphen and underscore"


def check_path(path: str, limits: Limits) -> tuple[str, ...]:
    """The parts of a path that may be unpacked or opened; a closing slash (of a folder) is left out.

    Args:
        path: As the archive or the folder holds it.
        limits: Bounds of length and depth.

    Raises:
        Refused: with a code for each trick.
    """
    where = ascii(path[:200])[1:-1]
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise Refused("name-not-utf8", "its name is not UTF-8", where=where, hint=_PLAIN_HINT) from None
    if size > limits.path_bytes:
        raise Refused("path-too-long", f"a path of {size:,} bytes; at most {limits.path_bytes}", where=where)
    if "\0" in path:
        raise Refused("name-nul", "its name holds a NUL byte, after which some programs stop reading", where=where)
    if "\\" in path:
        raise Refused("name-backslash", "its name holds a backslash, a separator elsewhere", where=where)
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        raise Refused("absolute-path", "an absolute path", where=where, hint="paths begin in the folder that is sent")
    parts = tuple(path.rstrip("/").split("/")) if path.rstrip("/") else ("",)
    if ".." in parts:
        raise Refused("parent-path", "a path that leads out of its folder", where=where)
    if len(parts) > limits.depth:
        raise Refused("too-deep", f"{len(parts)} folders deep; at most {limits.depth}", where=where)
    for part in parts:
        _check_part(part, where, limits)
    return parts


def _check_part(part: str, where: str, limits: Limits) -> None:
    if part in ("", "."):
        raise Refused("name-empty", "an empty part in its path, or `.`", where=where)
    if len(part.encode()) > limits.part_bytes:
        raise Refused("name-too-long", f"a name of more than {limits.part_bytes} bytes", where=where)
    for character in part:
        if character in _DIRECTION:
            raise Refused(
                "name-direction", f"its name turns the direction of text (U+{ord(character):04X})", where=where
            )
        if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp"):
            raise Refused(
                "name-control", f"its name holds an invisible character (U+{ord(character):04X})", where=where
            )
    if not part.isascii():
        if unicodedata.normalize("NFC", part) != part:
            raise Refused("name-not-nfc", "its name is not in the normal form NFC", where=where, hint=_PLAIN_HINT)
        if unicodedata.normalize("NFKC", part).isascii():
            raise Refused(
                "name-compatibility",
                "its name becomes another one where it is normalised",
                where=where,
                hint=_PLAIN_HINT,
            )
        raise Refused(
            "name-look-alike", "its name holds letters that look like ASCII and are not", where=where, hint=_PLAIN_HINT
        )
    if _DEVICES.fullmatch(part) or part.endswith("."):
        raise Refused("name-reserved", "a name that another operating system reads otherwise", where=where)
    if not _PLAIN.fullmatch(part):
        raise Refused("name-not-plain", "its name holds a character that is not plain", where=where, hint=_PLAIN_HINT)


class Names:
    """All paths seen so far; two that one file system holds apart and another does not are refused."""

    def __init__(self) -> None:
        """None seen."""
        self._seen: dict[str, str] = {}

    def add(self, parts: tuple[str, ...], *, folder: bool) -> None:
        """Note a path and the folders above it.

        Raises:
            Refused: it stands twice, as file and folder, or differs from another in case alone.
        """
        for length in range(1, len(parts)):
            self._note("/".join(parts[:length]), "folder")
        path = "/".join(parts)
        if not folder and path.casefold() in self._seen and self._exact(path):
            raise Refused("name-twice", "stands twice", where=path, hint="each file is sent once")
        self._note(path, "folder" if folder else "file")

    def _exact(self, path: str) -> bool:
        return self._seen[path.casefold()].partition(":")[2] == path

    def _note(self, path: str, kind: str) -> None:
        known = self._seen.setdefault(path.casefold(), f"{kind}:{path}")
        if known == f"{kind}:{path}":
            return
        if self._exact(path):
            raise Refused("name-twice", "stands twice, as a file and as a folder", where=path)
        other = known.partition(":")[2]
        raise Refused(
            "name-case", f"differs from {other} in case alone", where=path, hint="some file systems mix the two"
        )
