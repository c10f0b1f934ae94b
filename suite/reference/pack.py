"""Writing a reference pack: equal captures give equal bytes."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import sha256_bytes
from suite.observer import Observer, SilentObserver
from suite.reference.check import check_pack
from suite.reference.head import plan_heads
from suite.reference.schema import (
    LICENCE_CHARACTERS,
    RECORD_NAME,
    HeadRecipe,
    Member,
    PackRecord,
    member_order,
    refusal,
)
from suite.reference.store import LOCK_NAME, StoredReference, head_file
from suite.reference.tar import END, header, padding

NOT_STATED = "not stated"
_READ_BYTES = 1 << 20


def write_pack(
    stored: StoredReference,
    *,
    heads: Path,
    out: Path,
    licence: str | None = None,
    checkpoint: Path | None = None,
    observer: Observer | None = None,
) -> PackRecord:
    """Check a capture and write it as a pack to `out`: complete, or not at all.

    Args:
        stored: A capture with its lock.
        heads: The store's head files.
        out: The tar to write; it must not exist.
        licence: What to say about using it; by default what it says already, else "not stated".
        checkpoint: Folder of the model that the capture's lock names: its heads are left out, and fetched from there by
            whoever takes the pack in. None: the pack holds them.
        observer: Told of progress.

    Raises:
        InvalidInput: `out` exists, or the licence note is too long.
        MissingPrerequisite: a head is absent, or the disk is full.
        VerificationFailed: the capture is damaged, or the checkpoint is not the one that its lock names.
    """
    observer = observer or SilentObserver()
    if out.exists():
        raise InvalidInput("there is such a file already", where=str(out), hint="remove it, or choose another name")
    known = licence if licence is not None else stored.pack.licence if stored.pack else NOT_STATED
    if len(known) > LICENCE_CHARACTERS:
        raise InvalidInput(f"a licence note has at most {LICENCE_CHARACTERS:,} characters", where="--licence")
    contents = _contents(stored, heads)
    left_out: tuple[HeadRecipe, ...] = ()
    if checkpoint is not None:
        left_out = plan_heads(_head_names(stored), heads=heads, checkpoint=checkpoint, lock=stored.lock)
        contents = {path: content for path, content in contents.items() if not path.startswith("heads/")}
    record = _record(stored, contents, left_out, licence=known)
    check_pack(
        stored.capture.folder,
        record,
        lock_bytes=stored.lock.to_bytes(),
        head_path=lambda sha256: head_file(heads, sha256),
        observer=observer,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        _write(temporary, record, contents, observer)
        temporary.replace(out)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingPrerequisite(
                f"no space left for a pack of {record.total_bytes:,} bytes",
                where=str(out),
                hint="free disk space, then run again",
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return record


def _contents(stored: StoredReference, heads: Path) -> dict[str, bytes | Path]:
    """Member to its bytes or file, in the order of a pack."""
    folder, index = stored.capture.folder, stored.capture.index
    if missing := stored.missing_heads(heads):
        raise MissingPrerequisite(
            "the head of this capture is not in the store",
            where=str(head_file(heads, missing[0])),
            hint="run the reference again",
        )
    found: dict[str, bytes | Path] = {
        LOCK_NAME: stored.lock.to_bytes(),
        "index.json": (folder / "index.json").read_bytes(),
        "receipt.json": (folder / "receipt.json").read_bytes(),
    }
    found |= {f"heads/{sha256}.safetensors": head_file(heads, sha256) for sha256 in _head_names(stored)}
    found |= {chunk.file: folder / chunk.file for chunk in index.chunks}
    return dict(sorted(found.items(), key=lambda item: member_order(item[0])))


def _head_names(stored: StoredReference) -> tuple[str, ...]:
    """SHA-256 of each head file, in rank order; none where the rows themselves are stored."""
    index = stored.capture.index
    return tuple(index.head.sha256s) if index.head is not None and index.codec == "hidden" else ()


def _record(
    stored: StoredReference, contents: dict[str, bytes | Path], left_out: tuple[HeadRecipe, ...], *, licence: str
) -> PackRecord:
    index = stored.capture.index
    hashes = {chunk.file: chunk.sha256 for chunk in index.chunks}
    if index.head is not None:
        hashes |= {f"heads/{sha256}.safetensors": sha256 for sha256 in index.head.sha256s}
    members = []
    for path, content in contents.items():
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        if why := refusal(path, size):
            raise InvalidInput(f"cannot be packed: {why}", where=path, hint="capture with a smaller chunk_rows")
        sha256 = sha256_bytes(content) if isinstance(content, bytes) else hashes[path]
        members.append(Member(path=path, size_bytes=size, sha256=sha256))
    return PackRecord(
        schema_version=2 if left_out else 1,
        created=stored.pack.created if stored.pack else _captured(stored),
        reference_lock_digest=stored.lock.digest,
        capture_digest=index.capture_digest,
        tokens_sha256=index.tokens_sha256,
        num_rows=index.num_rows,
        start=index.start,
        licence=licence,
        members=tuple(members),
        heads=left_out,
    )


def _captured(stored: StoredReference) -> str:
    """When the capture was complete; not the time of packing, which would make equal packs differ."""
    seconds = (stored.capture.folder / "index.json").stat().st_mtime
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(path: Path, record: PackRecord, contents: dict[str, bytes | Path], observer: Observer) -> None:
    observer.phase("write pack", total=record.total_bytes, unit="bytes")
    data = record.to_bytes()
    with path.open("xb") as out:
        out.write(header(RECORD_NAME, len(data)) + data + bytes(padding(len(data))))
        for member in record.members:
            out.write(header(member.path, member.size_bytes))
            digest = hashlib.sha256()
            for block in _blocks(contents[member.path]):
                digest.update(block)
                out.write(block)
                observer.advance(len(block))
            if digest.hexdigest() != member.sha256:
                raise VerificationFailed(
                    "its bytes are not those that were captured", where=member.path, hint="run the reference again"
                )
            out.write(bytes(padding(member.size_bytes)))
        out.write(END)
        out.flush()
        os.fsync(out.fileno())


def _blocks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            yield block
