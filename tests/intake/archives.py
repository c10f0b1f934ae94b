"""Archives byte by byte, honest and hostile: what no library would write."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

BLOCK = 512


def tar_entry(
    name: str | bytes,
    data: bytes = b"",
    *,
    kind: bytes = b"0",
    size: int | None = None,
    link: bytes = b"",
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    checksum: int | None = None,
    size_field: bytes | None = None,
    padding: bytes = b"\0",
) -> bytes:
    """Header, content and padding of one entry, with whatever lies the arguments tell."""
    raw = name.encode() if isinstance(name, str) else name
    digits = b"%011o\0" % (len(data) if size is None else size) if size_field is None else size_field
    block = bytearray(BLOCK)
    block[0 : len(raw)] = raw
    block[100:108] = b"0000644\0"
    block[108:124] = b"0000000\0" * 2
    block[124:136] = digits
    block[136:148] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[157 : 157 + len(link)] = link
    block[257 : 257 + len(magic)] = magic
    block[345 : 345 + len(prefix)] = prefix
    block[148:156] = b"%06o\0 " % (sum(block) if checksum is None else checksum)
    return bytes(block) + data + padding * (-len(data) % BLOCK)


def tar(*entries: bytes, end: bytes = b"\0" * (2 * BLOCK)) -> bytes:
    """A whole archive."""
    return b"".join(entries) + end


def tar_of(folder: Path, *, below: str = "") -> bytes:
    """All files of a folder, as `tar --format=ustar` packs them."""
    stream = io.BytesIO()
    prefix = f"{below}/" if below else ""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, f"{prefix}{path.relative_to(folder).as_posix()}", recursive=False)
    return stream.getvalue()


def zip_of(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A plain zip."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return stream.getvalue()
