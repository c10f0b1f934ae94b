"""Unpacking one archive of a stranger into a new folder: tar, tar.gz, tar.zst or zip, bounded while it streams."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from typing import IO

from suite.intake.layout import MARKERS
from suite.intake.limits import LIMITS, Limits
from suite.intake.refusal import Refused, Unusable
from suite.intake.sink import Sink
from suite.intake.tar import BLOCK, Source, unpack_tar
from suite.intake.zip import unpack_zip

_READ_BYTES = 1 << 16
_WRAPPERS = 3
"""Folders around what is sent: `results/<name>/<stamp>-<lock digest>` of a repository."""


def unpack(path: Path, folder: Path, limits: Limits = LIMITS) -> Path:
    """Unpack an archive and return the folder that holds what was sent.

    Args:
        path: A regular file; its first bytes say what it is, its name says nothing.
        folder: New and empty.
        limits: Bounds.

    Raises:
        Unusable: not an archive that is read, or nothing in it.
        Refused: something in it may not be there.
    """
    try:
        # O_NONBLOCK: a named pipe must not make us wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Unusable("nothing-here", f"cannot be opened: {error.strerror}", where=str(path)) from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unusable("nothing-here", "neither a folder nor a regular file", where=str(path))
        if status.st_size > limits.archive_bytes:
            raise Refused("archive-too-large", f"{status.st_size:,} bytes; at most {limits.archive_bytes:,}")
        _unpack(stream, status.st_size, Sink(folder, limits), limits)
    return _root(folder)


def _unpack(stream: IO[bytes], size: int, sink: Sink, limits: Limits) -> None:
    start = stream.read(BLOCK)
    stream.seek(0)
    if start[:2] == b"PK":
        unpack_zip(stream, size, sink, limits)
    elif start[:3] == b"\x1f\x8b\x08":
        unpack_tar(_Bounded(_Gzip(stream), size, limits), sink)
    elif start[:4] == b"\x28\xb5\x2f\xfd":
        unpack_tar(_Bounded(_Zstandard(stream), size, limits), sink)
    elif start[257:262] == b"ustar":
        unpack_tar(stream, sink)
    else:
        raise Unusable(
            "not-an-archive", "no archive that is read", hint="send a .tar, .tar.gz, .tar.zst or .zip, or name a folder"
        )


def _root(folder: Path) -> Path:
    """The folder with the marker: what was sent may lie in folders that hold nothing else."""
    for _ in range(_WRAPPERS + 1):
        names = [entry.name for entry in folder.iterdir()]
        if set(names) & set(MARKERS) or len(names) != 1 or not (folder / names[0]).is_dir():
            return folder
        folder = folder / names[0]
    return folder


class _Bounded:
    """Expanded bytes, counted against those that were sent."""

    def __init__(self, source: Source, size: int, limits: Limits) -> None:
        self._source = source
        # Headers and padding of a tar beside what its files may hold.
        free = limits.ratio_free_bytes + limits.ratio * size
        self._most = min(free, limits.expanded_bytes + 4 * BLOCK * limits.files)
        self._limits = limits
        self._size = size
        self._count = 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._count += len(data)
        if self._count > self._most:
            raise Refused(
                "ratio", f"expands from {self._size:,} to more than {self._most:,} bytes", hint="no honest result does"
            )
        return data


class _Gzip:
    """One gzip member, expanded no further than asked for."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._expander = zlib.decompressobj(wbits=31)

    def read(self, size: int, /) -> bytes:
        while size and not self._expander.eof:
            sent = self._expander.unconsumed_tail or self._stream.read(_READ_BYTES)
            if not sent:
                raise Refused("truncated", "the compressed stream ends early", hint="send it again")
            try:
                data = self._expander.decompress(sent, size)
            except zlib.error as error:
                raise Refused("broken-archive", f"not a whole gzip stream: {error}", hint="send it again") from error
            if data:
                return data
        if self._expander.eof and (self._expander.unused_data or self._stream.read(1)):
            raise Refused("bytes-after-end", "bytes follow the compressed stream")
        return b""


class _Zstandard:
    """A Zstandard stream, expanded no further than asked for; a window of more than 128 MiB is refused."""

    def __init__(self, stream: IO[bytes]) -> None:
        import pyarrow as pa

        self._error = (pa.ArrowException, OSError)
        self._stream = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")

    def read(self, size: int, /) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except self._error as error:
            raise Refused("broken-archive", f"not a whole Zstandard stream: {error}", hint="send it again") from error
        return data
