"""Plain tar entries and nothing else: no links, no devices, no extended headers that give an entry another name.

Format: POSIX.1-1988 `ustar`, and the magic of GNU tar, whose plain entries are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from suite.intake.refusal import Refused
from suite.intake.sink import Sink

BLOCK = 512
_READ_BYTES = 1 << 16
_FILE_TYPES = (b"0", b"\0")
_FOLDER = b"5"
_KINDS = {
    b"1": ("hard-link", "a hard link"),
    b"2": ("link", "a symbolic link"),
    b"3": ("device", "a device"),
    b"4": ("device", "a device"),
    b"6": ("fifo", "a named pipe"),
    b"7": ("contiguous", "a contiguous file"),
    b"S": ("sparse", "a sparse file"),
    b"x": ("pax-header", "an extended header (pax)"),
    b"g": ("pax-header", "an extended header (pax)"),
    b"X": ("pax-header", "an extended header (pax)"),
    b"L": ("gnu-long-name", "a long name (GNU)"),
    b"K": ("gnu-long-name", "a long name (GNU)"),
}
_HINT = "send what `suite submit` writes, or make it with `tar --format=ustar`"


class Source(Protocol):
    """Expanded bytes of an archive."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


def unpack_tar(source: Source, sink: Sink) -> None:
    """Write all files of a tar into `sink`, reading it once from front to back.

    Raises:
        Refused: anything but regular files and folders, a header that is not exactly in form, or a truncated archive.
    """
    while True:
        block = _exactly(source, BLOCK)
        if not block.strip(b"\0"):
            break
        _entry(block, source, sink)
    # The end is two blocks of zeros, and zeros up to the end of a record.
    while rest := source.read(_READ_BYTES):
        if rest.strip(b"\0"):
            raise Refused("bytes-after-end", "bytes follow the end of the archive", hint=_HINT)


def _entry(block: bytes, source: Source, sink: Sink) -> None:
    if block[257:263] not in (b"ustar\0", b"ustar "):
        raise Refused("not-a-tar", "an entry is not in the form of a tar's", hint=_HINT)
    if _number(block[148:156], "checksum") != sum(block[:148]) + 8 * 32 + sum(block[156:]):
        raise Refused("tar-checksum", "the checksum of an entry's header does not hold", hint=_HINT)
    path = _path(block)
    where = ascii(path)[1:-1]
    kind = block[156:157]
    if kind in _KINDS or kind not in (*_FILE_TYPES, _FOLDER):
        code, what = _KINDS.get(kind, ("unknown-entry", f"an entry of type {ascii(kind)[1:]}"))
        raise Refused(code, f"{what}; only regular files are taken in", where=where, hint=_HINT)
    if block[157:257].strip(b"\0"):
        raise Refused("hidden-link", "a regular file that names a target of a link", where=where, hint=_HINT)
    size = _number(block[124:136], "size")
    if kind == _FOLDER or path.endswith("/"):
        if size:
            raise Refused("size-lie", "a folder with a content", where=where)
        sink.add_folder(path)
        return
    sink.add_file(path, size, _content(source, size))
    if _exactly(source, -size % BLOCK).strip(b"\0"):
        raise Refused("bytes-in-padding", "bytes that are no padding follow its content", where=where, hint=_HINT)


def _content(source: Source, size: int) -> Iterator[bytes]:
    while size:
        piece = source.read(min(size, _READ_BYTES))
        if not piece:
            raise Refused("truncated", "ends in the middle of a file")
        size -= len(piece)
        yield piece


def _exactly(source: Source, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = source.read(size - len(data))
        if not piece:
            raise Refused("truncated", "ends before its closing blocks", hint="send it again")
        data += piece
    return data


def _number(field: bytes, name: str) -> int:
    digits = field.strip(b"\0 ")
    if not digits or digits.strip(b"01234567"):
        raise Refused("tar-number", f"the {name} of an entry is no octal number", hint=_HINT)
    return int(digits, 8)


def _path(block: bytes) -> str:
    name, prefix = block[:100].split(b"\0")[0], block[345:500].split(b"\0")[0]
    # With GNU's magic these bytes hold times and offsets, and no part of the name.
    raw = prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name
    return raw.decode("utf-8", "surrogateescape")
