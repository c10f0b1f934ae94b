"""Writing and reading `branches.jsonl.gz`: one fork a line, in gzip members that can be read alone."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

from suite.branch.schema import FORKS_NAME, BranchesRecord, Fork, Segment, parse_fork
from suite.errors import VerificationFailed

FORKS_PER_SEGMENT = 32
SEGMENT_LIMIT_BYTES = 256 << 20
"""Largest expanded size of a segment that is read."""


def pack_forks(forks: Sequence[Fork]) -> tuple[bytes, tuple[Segment, ...]]:
    """The file's bytes and its segments; the same forks give the same bytes.

    Args:
        forks: In order of position.
    """
    data = bytearray()
    segments = []
    for start in range(0, len(forks), FORKS_PER_SEGMENT):
        group = forks[start : start + FORKS_PER_SEGMENT]
        # No time and no name in the header.
        member = gzip.compress(b"".join(fork.to_line() for fork in group), compresslevel=9, mtime=0)
        segments.append(
            Segment(
                first_position=group[0].position,
                last_position=group[-1].position,
                num_forks=len(group),
                offset=len(data),
                size_bytes=len(member),
            )
        )
        data += member
    return bytes(data), tuple(segments)


def read_forks(data: bytes, record: BranchesRecord, *, first: int = 0, last: int | None = None) -> Iterator[Fork]:
    """Forks at the positions `first` to `last`, both included, in order; other segments are not expanded.

    Args:
        data: The whole of `branches.jsonl.gz`.
        record: Says where its segments lie.
        first: Lowest position.
        last: Highest position; None for the end.

    Raises:
        VerificationFailed: the file is not of the size, or a segment does not hold the forks, that the record names.
        InvalidInput: a line is not a fork.
    """
    if len(data) != record.size_bytes:
        raise VerificationFailed(f"has {len(data):,} bytes, its segments {record.size_bytes:,}", where=FORKS_NAME)
    for segment in record.segments:
        if segment.last_position < first or (last is not None and segment.first_position > last):
            continue
        for fork in _segment(data[segment.offset : segment.offset + segment.size_bytes], segment):
            if fork.position >= first and (last is None or fork.position <= last):
                yield fork


def _segment(member: bytes, segment: Segment) -> list[Fork]:
    where = f"{FORKS_NAME}: segment at position {segment.first_position}"
    expander = zlib.decompressobj(wbits=31)
    try:
        text = expander.decompress(member, SEGMENT_LIMIT_BYTES)
    except zlib.error as error:
        raise VerificationFailed(f"cannot be expanded: {error}", where=where) from error
    if not expander.eof or expander.unused_data:
        raise VerificationFailed(f"is no gzip member of at most {SEGMENT_LIMIT_BYTES:,} bytes", where=where)
    lines = text.split(b"\n")
    if lines.pop() != b"" or len(lines) != segment.num_forks:
        raise VerificationFailed(f"does not hold {segment.num_forks} lines", where=where)
    forks = [parse_fork(line, where=where) for line in lines]
    positions = [fork.position for fork in forks]
    ends = (segment.first_position, segment.last_position)
    if (positions[0], positions[-1]) != ends or any(a >= b for a, b in pairwise(positions)):
        raise VerificationFailed("its forks are not those that branches.json names", where=where)
    return forks
