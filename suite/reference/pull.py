"""Taking a pack into the capture store: fetched by byte range, hashed as it comes, imported whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, sha256_bytes, write_atomic
from suite.manifest.lock import Lock, parse_lock
from suite.model.store import only_process
from suite.observer import Observer, SilentObserver
from suite.reference.check import check_pack, digest_of
from suite.reference.checkpoint import checkpoint_files
from suite.reference.head import fetch_head
from suite.reference.reader import Reader, open_pack
from suite.reference.schema import RECORD_NAME, Member, PackRecord
from suite.reference.signature import KEPT_SIGNATURE_NAME, kept_signature, read_signature, require_signer
from suite.reference.store import LOCK_NAME, StoredReference, head_file, open_stored, pack_folder
from suite.runtime.process import free_bytes
from suite.signing.statement import Signed

_SOURCE_NAME = "source.json"
"""Beside a pulled capture: where it came from, for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackHead:
    """What the first kilobytes of a pack say."""

    record: PackRecord
    lock: Lock
    digest: str
    """SHA-256 of its `pack.json`."""
    signed: Signed | None
    """The statement beside it; None where nobody signed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulled:
    """A pack in the capture store."""

    stored: StoredReference
    digest: str
    """SHA-256 of its `pack.json`."""
    signed: Signed | None
    """The statement beside it; None where nobody signed."""
    new: bool
    """False if the store had it already."""


def peek(source: str, *, signers: Collection[str] = ()) -> PackHead:
    """Read record, lock and signature of a pack without fetching the rest.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: see `pull`.
    """
    with closing(open_pack(source)) as reader:
        return _head_of(reader, source, signers)


def pull(
    source: str,
    *,
    home: Path,
    checkpoint: str | None = None,
    signers: Collection[str] = (),
    observer: Observer | None = None,
) -> Pulled:
    """Fetch a pack, check it and import it into the capture store below `home`.

    Members are hashed as they arrive. What arrived before a transfer broke off is kept and not fetched again; what is
    not as `pack.json` lists it is thrown away, and the store stays as it was.

    Args:
        source: A tar, a folder, or a URL.
        home: The state folder.
        checkpoint: Folder or URL of the checkpoint, for a pack that leaves its head out; None for this machine's copy,
            else the hub at the lock's commit.
        signers: Key ids, one of which must have signed the pack; none: it may be unsigned.
        observer: Told of progress, in bytes.

    Raises:
        InvalidInput: no such file, or a newer schema.
        MissingPrerequisite: it cannot be reached, broke off, or the disk is full.
        VerificationFailed: not a pack, or something in it is not what it claims; the member is named. Also where no
            required key signed it, or a signature beside it does not hold.
    """
    observer = observer or SilentObserver()
    captures = home / "captures"
    with closing(open_pack(source)) as reader:
        head = _head_of(reader, source, signers)
        target = _target(captures, head.record)
        if target.is_dir():
            return _pulled(target, head, signers, new=False)
        staging = _staging(home, source)
        with only_process(staging.with_name(f".{staging.name}.lock"), observer):
            if target.is_dir():  # another process pulled it meanwhile
                return _pulled(target, head, signers, new=False)
            _fetch(reader, staging, captures / "heads", observer)
            _fetch_heads(head, staging, captures / "heads", checkpoint, home, observer)
            _check(staging, captures / "heads", reader, observer)
            write_atomic(staging / _SOURCE_NAME, canonical_json({"schema_version": 1, "source": reader.name}))
            _import(staging, target, captures / "heads")
    return _pulled(target, head, signers, new=True)


def verify(
    source: str,
    *,
    home: Path,
    checkpoint: str | None = None,
    signers: Collection[str] = (),
    observer: Observer | None = None,
) -> PackHead:
    """Check a pack as `pull` does, and import nothing. Needs its size on disk while it runs.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: see `pull`.
    """
    observer = observer or SilentObserver()
    with closing(open_pack(source)) as reader:
        head = _head_of(reader, source, signers)
        staging = _staging(home, source)
        with only_process(staging.with_name(f".{staging.name}.lock"), observer):
            _fetch(reader, staging, None, observer)
            _fetch_heads(head, staging, None, checkpoint, home, observer)
            try:
                _check(staging, staging / "heads", reader, observer)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return head


def _head_of(reader: Reader, source: str, signers: Collection[str]) -> PackHead:
    member = reader.record.member(LOCK_NAME)
    data = b"".join(reader.member(member))
    if sha256_bytes(data) != member.sha256:
        raise _changed(reader, member)
    lock = parse_lock(data, where=f"{reader.name}: {LOCK_NAME}")
    digest = digest_of(reader.record_bytes)
    signed = read_signature(source, digest=digest)
    require_signer(signed, signers, where=reader.name)
    return PackHead(record=reader.record, lock=lock, digest=digest, signed=signed)


def _pulled(target: Path, head: PackHead, signers: Collection[str], *, new: bool) -> Pulled:
    """What the store holds now; a signature that came with the pack is kept beside it.

    Two packs of one capture (with and without its head, say) have one place in the store, and the first keeps it.
    """
    stored = open_stored(target)
    digest = digest_of((target / RECORD_NAME).read_bytes())
    if digest == head.digest:
        if head.signed is not None:
            write_atomic(target / KEPT_SIGNATURE_NAME, head.signed.to_bytes())
        return Pulled(stored=stored, digest=digest, signed=head.signed, new=new)
    signed = kept_signature(target)
    require_signer(signed, signers, where=str(target), hint="it came with another pack: remove it, then pull again")
    return Pulled(stored=stored, digest=digest, signed=signed, new=new)


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
        _require_room(staging, sum(m.size_bytes for m in wanted))
        observer.phase("fetch pack", total=sum(m.size_bytes for m in wanted), unit="bytes")
        try:
            for member in wanted:
                _fetch_member(reader, member, staging / member.path, observer)
            reader.finish()
        except VerificationFailed:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _fetch_heads(
    head: PackHead, staging: Path, heads: Path | None, checkpoint: str | None, home: Path, observer: Observer
) -> None:
    """Bring the heads that the pack leaves out into `staging`, except those that the store has."""
    wanted = [one for one in head.record.heads if heads is None or not head_file(heads, one.sha256).is_file()]
    wanted = [one for one in wanted if not head_file(staging / "heads", one.sha256).is_file()]
    if not wanted:
        return
    open_file = checkpoint_files(head.lock, checkpoint=checkpoint, home=home)
    with _disk_full_is_told(staging, head.record):
        _require_room(staging, sum(one.size_bytes for one in wanted))
        observer.phase("fetch head from the checkpoint", total=sum(one.size_bytes for one in wanted), unit="bytes")
        for one in wanted:
            fetch_head(one, head_file(staging / "heads", one.sha256), open_file=open_file, observer=observer)


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


def _require_room(staging: Path, needed: int) -> None:
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
