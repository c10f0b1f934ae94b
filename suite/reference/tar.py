"""The one tar layout that packs have: plain ustar headers of regular files; equal content gives equal bytes.

A general tar reader follows links, long names and sparse maps. Here the header of every member is known before it is
read, since `pack.json` comes first and lists the rest; anything else is refused with the reason.
Format: POSIX.1-1988 (ustar) interchange format.
"""

from __future__ import annotations

import tarfile

from suite.errors import VerificationFailed
from suite.reference.schema import RECORD_NAME, Member, PackRecord, refusal

BLOCK = 512
END = bytes(2 * BLOCK)
"""Two zero blocks close a tar."""

_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a folder entry",
    b"6": "a named pipe",
    b"S": "a sparse file",
    b"L": "a long-name header",
    b"K": "a long-link header",
    b"x": "an extended header",
    b"g": "a global extended header",
}
_MAGICS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK": "zip",
}


def header(path: str, size_bytes: int) -> bytes:
    """The 512 bytes before a member: regular file, mode 0644, no owner, no time."""
    info = tarfile.TarInfo(path)
    info.size = size_bytes
    return info.tobuf(format=tarfile.USTAR_FORMAT)


def padding(size_bytes: int) -> int:
    """Zero bytes that follow a member of this size."""
    return -size_bytes % BLOCK


def offsets(record: PackRecord, record_bytes: int) -> dict[str, int]:
    """Where the header of each member lies, in bytes from the beginning of the pack; `""` is where the end lies.

    Args:
        record: The pack's record.
        record_bytes: Size of `pack.json` as it lies in the pack.
    """
    found = {}
    at = BLOCK + record_bytes + padding(record_bytes)
    for member in record.members:
        found[member.path] = at
        at += BLOCK + member.size_bytes + padding(member.size_bytes)
    return found | {"": at}


def record_size(block: bytes, *, where: str) -> int:
    """Size of `pack.json`, whose header is the first block of a pack.

    Raises:
        VerificationFailed: the file is no pack.
    """
    for magic, name in _MAGICS.items():
        if block.startswith(magic):
            raise VerificationFailed(f"compressed ({name}); a pack is an uncompressed tar", where=where)
    if len(block) < BLOCK or block[257:263] != b"ustar\0":
        raise VerificationFailed("not a reference pack (no ustar header)", where=where)
    path = _path(block)
    if path != RECORD_NAME:
        raise VerificationFailed(f"does not begin with {RECORD_NAME} but with {path!a}", where=where)
    digits = block[124:136].rstrip(b"\0 ")
    size = int(digits, 8) if digits.isdigit() and not digits.strip(b"01234567") else -1
    if size < 0 or block != header(RECORD_NAME, size):
        raise VerificationFailed(f"the header of {RECORD_NAME} is not that of a pack", where=where)
    return size


def check_header(block: bytes, member: Member, *, where: str) -> None:
    """Check that `block` is the header of `member`.

    Raises:
        VerificationFailed: it is another file's, of another kind, or written otherwise; the reason is named.
    """
    if block == header(member.path, member.size_bytes):
        return
    expected = f"where {member.path} is expected"
    if len(block) < BLOCK:
        raise VerificationFailed(f"ends {expected}", where=where)
    if not block.strip(b"\0"):
        raise VerificationFailed(f"the pack ends {expected}", where=where)
    path, kind = _path(block), block[156:157]
    if kind not in (b"0", b"\0"):
        what = _KINDS.get(kind, f"an entry of type {ascii(kind)[1:]}")
        raise VerificationFailed(f"{path!a} is {what}; packs hold regular files only", where=where)
    if path != member.path:
        raise VerificationFailed(f"{path!a} {expected}: {refusal(path, 0) or 'out of order'}", where=where)
    raise VerificationFailed(f"the header of {path} does not say what {RECORD_NAME} lists", where=where)


def _path(block: bytes) -> str:
    name, prefix = block[:100].split(b"\0")[0], block[345:500].split(b"\0")[0]
    return (prefix + b"/" + name if prefix else name).decode("latin-1")
