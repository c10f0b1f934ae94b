"""Files as the whole project writes them: canonical JSON, hashes, and atomic replacement."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed

_READ_BYTES = 1 << 20
PRIVATE = 0o600
"""Mode of a file that only its owner may read."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, no spaces and one closing newline: the form that is hashed.

    Raises:
        ValueError: `value` holds NaN or an infinity.
    """
    return _CANONICAL.encode(value).encode() + b"\n"


def pretty_json(value: Any) -> bytes:
    """The same value as `canonical_json`, indented for people."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def sha256_bytes(data: bytes) -> str:
    """Lower-case hex SHA-256 of `data` (64 characters)."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Lower-case hex SHA-256 of a file, read in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_regular(path: Path, *, limit_bytes: int, where: str | None = None) -> bytes:
    """The bytes of a regular file, opened without following a link.

    Args:
        path: The file.
        limit_bytes: More than that is not read.
        where: What messages call the file; its path by default.

    Raises:
        VerificationFailed: absent, a link or another special file, or larger than the limit.
    """
    where = where or str(path)
    try:
        # O_NONBLOCK: a named pipe must not make us wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise VerificationFailed(f"cannot be opened: {error.strerror}", where=where) from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise VerificationFailed("not a regular file", where=where)
        if status.st_size > limit_bytes:
            raise VerificationFailed(f"has {status.st_size:,} bytes; at most {limit_bytes:,} are read", where=where)
        # Not up to the limit: so much memory would be set aside before a byte is read.
        data = stream.read(status.st_size + 1)
    if len(data) != status.st_size:
        raise VerificationFailed("changes while it is read", where=where)
    return data


def write_atomic(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write `data` so that `path` is either the old file or the whole new one, also after a crash.

    Args:
        path: Its folder is made where it is absent.
        data: The whole content.
        mode: Permissions from the first byte on, less what the umask takes.

    Raises:
        MissingPrerequisite: the disk is full; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingPrerequisite(
                f"no space left for {len(data):,} bytes", where=str(path), hint="free disk space, then run again"
            ) from error
        raise


def strict_json(data: bytes, *, where: str) -> Any:
    """Parse JSON, refusing duplicate keys, NaN and infinities.

    Raises:
        InvalidInput: not UTF-8, not JSON, or one of the above.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InvalidInput(f"the key {twice!r} stands twice", where=where)
        return result

    def constant(name: str) -> Any:
        raise InvalidInput(f"{name} is not a number that JSON allows", where=where)

    def finite(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else constant(digits)

    try:
        return json.loads(data.decode(), object_pairs_hook=pairs, parse_constant=constant, parse_float=finite)
    except UnicodeDecodeError as error:
        raise InvalidInput("not UTF-8 text", where=where) from error
    except (ValueError, RecursionError) as error:  # ValueError: also an integer of thousands of digits
        raise InvalidInput(f"not JSON: {error}", where=where) from error


def read_json(path: Path) -> Any:
    """Read one strict JSON file.

    Raises:
        InvalidInput: absent, unreadable or not strict JSON.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    return strict_json(data, where=str(path))
