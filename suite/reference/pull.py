"""Taking a pack into the capture store: fetched by byte range, hashed as it comes, imported whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, sha256_bytes, write_atomic
from suite.manifest.lock import Lock, parse_lock
from suite.model.store import only_process
from suite.observer import Observer, SilentObserver
from suite.reference.check import check_pack, digest_of
from suite.reference.reader import Reader, open_pack
from suite.reference.schema import RECORD_NAME, Member, PackRecord
from suite.reference.store import LOCK_NAME, StoredReference, head_file, open_stored, pack_folder
from suite.runtime.process import free_bytes

_SOURCE_NAME = "source.json"
"""Beside a pulled capture: where it came from, for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackHead:
    """What the first kilobytes of a pack say."""

    record: PackRecord
    lock: Lock
    digest: str
    """SHA-256 of its `pack.json`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulled:
    """A pack in the capture store."""

    stored: StoredReference
    digest: str
    """SHA-256 of its `pack.json`."""
    new: bool
    """False if the store had it already."""


def peek(source: str) -> PackHead:
    """Read record and lock of a pack without fetching the rest.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: see `pull`.
    """
    with closing(open_pack(source)) as reader:
        return _head_of(reader)


def pull(source: str, *, home: Path, observer: Observer | None = None) -> Pulled:
    """Fetch a pack, check it and import it into the capture store below `home`.

    Members are hashed as they arrive. What arrived before a transfer broke off is kept and not fetched again; what is
    not as `pack.json` lists it is thrown away, and the store stays as it was.

    Args:
        source: A tar, a folder, or a URL.
        home: The state folder.
        observer: Told of progress, in bytes.

    Raises:
        InvalidInput: no such file, or a newer schema.
        MissingPrerequisite: it cannot be reached, broke off, or the disk is full.
        VerificationFailed: not a pack, or something in it is not what it claims; the member is named.
    """
    observer = observer or SilentObserver()
    captures = home / "captures"
    with closing(open_pack(source)) as reader:
        head = _head_of(reader)
        target = _target(captures, head.record)
        if target.is_dir():
            return Pulled(stored=open_stored(target), digest=head.digest, new=False)
        staging = _staging(home, source)
        with only_process(staging.with_name(f".{staging.name}.lock"), observer):
            if target.is_dir():  # another process pulled it meanwhile
                return Pulled(stored=open_stored(target), digest=head.digest, new=False)
            _fetch(reader, staging, captures / "heads", observer)
            _check(staging, captures / "heads", reader, observer)
            write_atomic(staging / _SOURCE_NAME, canonical_json({"schema_version": 1, "source": reader.name}))
            _import(staging, target, captures / "heads")
    return Pulled(stored=open_stored(target), digest=head.digest, new=True)


def verify(source: str, *, home: Path, observer: Observer | None = None) -> PackHead:
    """Check a pack as `pull` does, and import nothing. Needs its size on disk while it runs.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: see `pull`.
    """
    observer = observer or SilentObserver()
    with closing(open_pack(source)) as reader:
        head = _head_of(reader)
        staging = _staging(home, source)
        with only_process(staging.with_name(f".{staging.name}.lock"), observer):
            _fetch(reader, staging, None, observer)
            try:
                _check(staging, staging / "heads", reader, observer)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return head


def _head_of(reader: Reader) -> PackHead:
    member = reader.record.member(LOCK_NAME)
    data = b"".join(reader.member(member))
    if sha256_bytes(data) != member.sha256:
        raise _changed(reader, member)
    lock = parse_lock(data, where=f"{reader.name}: {LOCK_NAME}")
    return PackHead(record=reader.record, lock=lock, digest=digest_of(reader.record_bytes))


def _target(captures: Path, record: PackRecord) -> Path:
    return pack_folder(captures, capture_digest=record.capture_digest, index_sha256=record.member("index.json").sha256)


def _staging(home: Path, source: str) -> Path:
    """One folder per source, so that another try finds what the last one fetched."""
    place = source if "://" in source else str(Path(source).expanduser().absolute())
    return home / "incoming" / sha256_bytes(place.encode())[:24]


def _fetch(reader: Reader, staging: Path, heads: Path | None, observer: Observer) -> None:
    """Bring every member into `staging`, except heads that the store has."""
    record = staging / RECORD_NAME
    if record.is_file() and record.read_bytes() != reader.record_bytes:
        shutil.rmtree(staging)
    with _disk_full_is_told(staging, reader.record):
        (staging / "heads").mkdir(parents=True, exist_ok=True)
        write_atomic(record, reader.record_bytes)
        wanted = [m for m in reader.record.members if not _has(m, staging, heads)]
        _require_room(staging, wanted)
        observer.phase("fetch pack", total=sum(m.size_bytes for m in wanted), unit="bytes")
        try:
            for member in wanted:
                _fetch_member(reader, member, staging / member.path, observer)
            reader.finish()
        except VerificationFailed:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _has(member: Member, staging: Path, heads: Path | None) -> bool:
    places = [staging / member.path]
    if heads is not None and member.path.startswith("heads/"):
        places.append(heads.parent / member.path)
    return any(p.is_file() and p.stat().st_size == member.size_bytes for p in places)


def _fetch_member(reader: Reader, member: Member, target: Path, observer: Observer) -> None:
    partial = target.with_name(f"{target.name}.partial")
    digest = hashlib.sha256()
    with partial.open("a+b") as out:
        if out.tell() >= member.size_bytes:
            out.truncate(0)
        out.seek(0)
        while block := out.read(1 << 20):
            digest.update(block)
        kept = out.tell()
        observer.advance(kept)
        for block in reader.member(member, skip=kept):
            digest.update(block)
            out.write(block)
            observer.advance(len(block))
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != member.sha256:
        raise _changed(reader, member)
    partial.replace(target)


def _changed(reader: Reader, member: Member) -> VerificationFailed:
    return VerificationFailed(
        f"{member.path}: its bytes are not those that {RECORD_NAME} lists",
        where=reader.name,
        hint="get the pack again from its maker; nothing was imported",
    )


def _check(staging: Path, heads: Path, reader: Reader, observer: Observer) -> None:
    def head_path(sha256: str) -> Path:
        staged = head_file(staging / "heads", sha256)
        return staged if staged.is_file() else head_file(heads, sha256)

    try:
        check_pack(
            staging,
            reader.record,
            lock_bytes=(staging / LOCK_NAME).read_bytes(),
            head_path=head_path,
            observer=observer,
        )
    except VerificationFailed as error:
        shutil.rmtree(staging, ignore_errors=True)
        # Paths of the staging folder tell the user nothing.
        where = (error.where or "").replace(f"{staging}{os.sep}", "")
        raise VerificationFailed(
            error.message,
            where=f"{reader.name}: {where}" if where else reader.name,
            hint="do not use this pack; nothing was imported",
        ) from error


def _import(staging: Path, target: Path, heads: Path) -> None:
    """Heads first, by hash, then the capture in one rename: a capture of the store is never without its head."""
    heads.mkdir(parents=True, exist_ok=True)
    for head in sorted((staging / "heads").iterdir()):
        if not (heads / head.name).is_file():
            head.replace(heads / head.name)
    shutil.rmtree(staging / "heads")
    target.parent.mkdir(parents=True, exist_ok=True)
    staging.rename(target)


def _require_room(staging: Path, wanted: list[Member]) -> None:
    needed = sum(m.size_bytes for m in wanted)
    free = free_bytes(staging)
    if needed > free:
        raise MissingPrerequisite(
            f"the pack needs {needed:,} bytes of disk, {free:,} are free",
            where=str(staging.parent.parent),
            hint="free disk space, or set SUITE_HOME to a larger disk",
        )


@contextmanager
def _disk_full_is_told(staging: Path, record: PackRecord) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingPrerequisite(
                f"no space left for a pack of {record.total_bytes:,} bytes",
                where=str(staging.parent.parent),
                hint="free disk space, then run again: it resumes",
            ) from error
        raise
