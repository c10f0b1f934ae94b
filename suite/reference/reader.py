"""Reading a pack, as a tar or as a folder, member by member and from any byte on; nothing in it is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from suite.errors import VerificationFailed
from suite.reference.schema import RECORD_LIMIT_BYTES, RECORD_NAME, Member, PackRecord, parse_record
from suite.reference.source import BytesSource, Stream, open_regular, open_source, transfer
from suite.reference.tar import BLOCK, END, check_header, offsets, padding, record_size

_READ_BYTES = 1 << 20
_SKIP_BYTES = 1 << 16
"""Up to here reading on is cheaper than asking for another byte range."""


class Reader(Protocol):
    """An opened pack."""

    name: str
    """Its source, for messages."""
    record: PackRecord
    record_bytes: bytes
    """`pack.json` as it lies in the pack."""

    def member(self, member: Member, skip: int = 0) -> Iterator[bytes]:
        """The bytes of one member from `skip` on, in pieces of up to 1 MiB; not yet compared with their hash.

        Raises:
            VerificationFailed: it is not there, of another kind, or of another size.
            MissingPrerequisite: the transfer broke off.
        """

    def finish(self) -> None:
        """Check that nothing follows the last member.

        Raises:
            VerificationFailed: something does.
        """

    def close(self) -> None:
        """Let go of the source."""


def open_pack(source: str) -> Reader:
    """Open the pack at a path or URL and read its record.

    Raises:
        InvalidInput: no such file, or a newer schema.
        MissingPrerequisite: it cannot be reached.
        VerificationFailed: not a reference pack.
    """
    found = open_source(source)
    return FolderReader(found) if isinstance(found, Path) else TarReader(found)


class TarReader:
    """A pack in one tar file."""

    def __init__(self, source: BytesSource) -> None:
        """Read the record; see `open_pack`."""
        self.name = source.name
        self._source = source
        self._stream: Stream | None = None
        self._at = 0
        try:
            self._read_record()
        except BaseException:
            self.close()
            raise
        self._offsets = offsets(self.record, len(self.record_bytes))

    def _read_record(self) -> None:
        self._go(0)
        size = record_size(self._read(BLOCK), where=self.name)
        where = f"{self.name}: {RECORD_NAME}"
        if not 0 < size <= RECORD_LIMIT_BYTES:
            raise VerificationFailed(f"{size:,} bytes; at most {RECORD_LIMIT_BYTES:,} are read", where=where)
        self.record_bytes = self._exactly(size, RECORD_NAME)
        self._zeros(padding(size), f"after {RECORD_NAME}")
        self.record = parse_record(self.record_bytes, where=where)

    def member(self, member: Member, skip: int = 0) -> Iterator[bytes]:
        """See `Reader.member`."""
        start = self._offsets[member.path]
        self._go(start)
        check_header(self._read(BLOCK), member, where=self.name)
        self._go(start + BLOCK + skip)
        left = member.size_bytes - skip
        while left:
            data = self._piece(min(left, _READ_BYTES))
            if not data:
                raise VerificationFailed(f"ends inside {member.path}: {left:,} bytes are missing", where=self.name)
            left -= len(data)
            yield data
        self._zeros(padding(member.size_bytes), f"after {member.path}")

    def finish(self) -> None:
        """See `Reader.finish`."""
        self._go(self._offsets[""])
        end = self._read(len(END))
        if end.strip(b"\0"):
            raise VerificationFailed(f"a member follows that {RECORD_NAME} does not list", where=self.name)
        if len(end) < len(END):
            raise VerificationFailed("ends before its closing blocks", where=self.name)
        if self._piece(1):
            raise VerificationFailed("bytes follow the end of the pack", where=self.name)

    def close(self) -> None:
        """See `Reader.close`."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _go(self, offset: int) -> None:
        ahead = offset - self._at
        if self._stream is not None and 0 <= ahead <= _SKIP_BYTES:
            self._read(ahead)
            return
        self.close()
        with transfer(self.name):
            self._stream = self._source.open_at(offset)
        self._at = offset

    def _piece(self, size: int) -> bytes:
        assert self._stream is not None
        with transfer(self.name):
            data = self._stream.read(size)
        self._at += len(data)
        return data

    def _read(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end of the file."""
        data = b""
        while len(data) < size and (piece := self._piece(size - len(data))):
            data += piece
        return data

    def _exactly(self, size: int, path: str) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise VerificationFailed(f"ends inside {path}: {size - len(data):,} bytes are missing", where=self.name)
        return data

    def _zeros(self, size: int, place: str) -> None:
        data = self._read(size)
        if len(data) < size:
            raise VerificationFailed(f"ends {place}", where=self.name)
        if data.strip(b"\0"):
            raise VerificationFailed(f"bytes that are no padding lie {place}", where=self.name)


class FolderReader:
    """A pack as a folder of files."""

    def __init__(self, folder: Path) -> None:
        """Read the record; see `open_pack`."""
        self.name = str(folder)
        self._folder = folder
        with open_regular(folder, RECORD_NAME, where=self.name) as stream:
            self.record_bytes = stream.read(RECORD_LIMIT_BYTES + 1)
        where = f"{self.name}: {RECORD_NAME}"
        if len(self.record_bytes) > RECORD_LIMIT_BYTES:
            raise VerificationFailed(f"more than {RECORD_LIMIT_BYTES:,} bytes", where=where)
        self.record = parse_record(self.record_bytes, where=where)

    def member(self, member: Member, skip: int = 0) -> Iterator[bytes]:
        """See `Reader.member`."""
        with open_regular(self._folder, member.path, where=self.name) as stream:
            stream.seek(skip)
            left = member.size_bytes - skip
            while left:
                data = stream.read(min(left, _READ_BYTES))
                if not data:
                    raise VerificationFailed(f"ends inside {member.path}: {left:,} bytes are missing", where=self.name)
                left -= len(data)
                yield data
            if stream.read(1):
                raise VerificationFailed(f"{member.path} is longer than {RECORD_NAME} says", where=self.name)

    def finish(self) -> None:
        """See `Reader.finish`."""
        known = {RECORD_NAME, "heads"} | {member.path for member in self.record.members}
        for folder, prefix in ((self._folder, ""), (self._folder / "heads", "heads/")):
            for entry in folder.iterdir() if folder.is_dir() else ():
                if prefix + entry.name not in known:
                    raise VerificationFailed(
                        f"{prefix + entry.name!a} is a file that {RECORD_NAME} does not list", where=self.name
                    )

    def close(self) -> None:
        """See `Reader.close`."""
