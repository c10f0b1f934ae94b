"""Plain zip entries and nothing else: each byte of the archive belongs to one entry, and both headers agree."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from suite.intake.limits import Limits
from suite.intake.refusal import Refused, Unusable
from suite.intake.sink import Sink

_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC = b"PK\x03\x04"
_DESCRIPTOR = 0x08
_UTF8 = 0x800
_LEVELS = 0x06
"""How hard a packer tried; decides nothing."""
_CENTRAL_BYTES = 1_024
"""Of one entry in the directory, at most: name and times."""
_READ_BYTES = 1 << 16
_HINT = "send what `suite submit` writes, or an archive without extras"
_MSDOS, _UNIX = 0, 3


def unpack_zip(stream: IO[bytes], size: int, sink: Sink, limits: Limits) -> None:
    """Write all files of a zip into `sink`.

    Args:
        stream: The archive.
        size: Its bytes.
        sink: Takes the files.
        limits: Bounds of count and ratio.

    Raises:
        Unusable: no zip.
        Refused: anything but plain files and folders, overlapping or hidden bytes, headers that disagree, encryption,
            another compression than deflate, or too high a ratio.
    """
    directory = _directory_offset(stream, size, limits)
    try:
        with zipfile.ZipFile(stream) as archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
            expanded = sum(entry.file_size for entry in entries)
            if expanded > limits.ratio_free_bytes + limits.ratio * size:
                raise Refused("ratio", f"expands to {expanded:,} bytes from {size:,}; at most {limits.ratio} times")
            at = 0
            for entry in entries:
                at = _check_entry(entry, stream, at)
                if entry.filename.endswith("/"):
                    sink.add_folder(entry.orig_filename)
                else:
                    sink.add_file(entry.orig_filename, entry.file_size, _content(archive, entry))
            if at != directory:
                raise Refused("hidden-bytes", "bytes between the last entry and the directory", hint=_HINT)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, struct.error, ValueError) as error:
        raise Refused("broken-archive", f"not a whole zip: {error}", hint="send it again") from error


def _directory_offset(stream: IO[bytes], size: int, limits: Limits) -> int:
    if size < _END.size:
        raise Unusable("not-an-archive", "too short for a zip")
    stream.seek(size - _END.size)
    magic, disk, first, here, count, length, offset, comment = _END.unpack(stream.read(_END.size))
    if magic != b"PK\x05\x06" or comment or disk or first or here != count:
        raise Refused("zip-form", "does not end as a plain zip does (no comment, one part, no zip64)", hint=_HINT)
    if count > limits.files:
        raise Refused("too-many-files", f"{count:,} entries; at most {limits.files}")
    if length > count * _CENTRAL_BYTES or offset + length != size - _END.size:
        raise Refused("zip-form", "its directory is not where and as large as it must be", hint=_HINT)
    return int(offset)


def _check_entry(entry: zipfile.ZipInfo, stream: IO[bytes], at: int) -> int:
    """Check one entry, which must begin at `at`; returns where the next one must."""
    where = ascii(entry.orig_filename[:200])[1:-1]
    if entry.header_offset != at:
        raise Refused("overlap", "entries overlap, or bytes lie between them", where=where, hint=_HINT)
    if entry.flag_bits & 0x1:
        raise Refused("encrypted", "encrypted; nobody else could check it", where=where)
    if entry.flag_bits & ~(_DESCRIPTOR | _UTF8 | _LEVELS):
        raise Refused("zip-form", f"flags {entry.flag_bits:#x} are not those of a plain entry", where=where, hint=_HINT)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refused("compression", f"compression method {entry.compress_type}; deflate alone is read", where=where)
    _check_kind(entry, where)
    stream.seek(at)
    header = stream.read(_LOCAL.size)
    if len(header) < _LOCAL.size or header[:4] != _LOCAL_MAGIC:
        raise Refused("broken-archive", "no entry where the directory says", where=where)
    _, _, flags, method, _, _, crc, packed, plain, name_bytes, extra_bytes = _LOCAL.unpack(header)
    name = stream.read(name_bytes).decode("utf-8" if flags & _UTF8 else "cp437", "surrogateescape")
    late = bool(flags & _DESCRIPTOR)
    numbers = (0, 0, 0) if late and not packed else (entry.CRC, entry.compress_size, entry.file_size)
    if (name, flags, method) != (entry.orig_filename, entry.flag_bits, entry.compress_type) or (
        (crc, packed, plain) != numbers
    ):
        raise Refused("two-headers", "its two headers say different things", where=where, hint=_HINT)
    end: int = at + _LOCAL.size + name_bytes + extra_bytes + entry.compress_size
    if not late:
        return end
    stream.seek(end)
    start = stream.read(4)
    # The descriptor's own magic is optional.
    return end + (16 if start == b"PK\x07\x08" else 12)


def _check_kind(entry: zipfile.ZipInfo, where: str) -> None:
    mode = entry.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if entry.create_system not in (_MSDOS, _UNIX):
        raise Refused("zip-form", f"made on an unknown system ({entry.create_system})", where=where, hint=_HINT)
    if kind == stat.S_IFLNK:
        raise Refused("link", "a symbolic link; only regular files are taken in", where=where)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise Refused("device", "a special file; only regular files are taken in", where=where)
    if entry.filename.endswith("/") and entry.file_size:
        raise Refused("size-lie", "a folder with a content", where=where)


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(entry) as stream:
        while piece := stream.read(_READ_BYTES):
            yield piece
