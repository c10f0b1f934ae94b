"""Heads that a pack leaves out: made again, bit for bit, from rows of the checkpoint's own tensor, by byte range.

A head file is a short header and then the rows of the output embedding as the checkpoint stores them (of the input
embedding where the two are tied), with padding of zeros where the stack has added any. At 27B that is 2.5 GB out of a
checkpoint of 55. Whether a recipe is right is never in doubt: the file's SHA-256 is in the pack.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from suite.capture.tensors import TensorEntry, open_tensors, tensor_entries
from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_file, strict_json
from suite.manifest.lock import Lock
from suite.observer import Observer
from suite.reference.schema import HEAD_HEADER_LIMIT_BYTES, HeadPart, HeadRecipe
from suite.reference.source import BytesSource, FileSource, transfer

FileOpener = Callable[[str], BytesSource]
"""Where a file of the checkpoint, by its name in it, is read from."""

_HEADER_LIMIT_BYTES = 16 << 20
_DTYPES = ("BF16", "F16", "F32")
_READ_BYTES = 1 << 20


def plan_heads(names: Sequence[str], *, heads: Path, checkpoint: Path, lock: Lock) -> tuple[HeadRecipe, ...]:
    """Find in a checkpoint of this machine the rows of which a capture's heads are made.

    Args:
        names: SHA-256 of each head file, in rank order.
        heads: The store's head files.
        checkpoint: Folder of the model that the lock names.
        lock: Names the checkpoint's files with their hashes.

    Raises:
        MissingPrerequisite: a file of the checkpoint is absent.
        InvalidInput: a head is not made of rows of one tensor as it lies in the checkpoint.
        VerificationFailed: a file of the checkpoint is not the one that the lock names.
    """
    hashes = {file.path: file.sha256 for file in lock.model.files if file.path.endswith(".safetensors")}
    found: list[tuple[str, str, TensorEntry]] = []
    for name in sorted(hashes):
        source = FileSource(path=checkpoint / name)
        found += [(name, tensor, entry) for tensor, entry in _read_header(source).items()]
    found.sort(key=lambda item: (not item[1].endswith("lm_head.weight"), not item[1].endswith("embed_tokens.weight")))
    recipes = []
    start = 0
    for sha256 in names:
        recipe, rows = _plan(heads / f"{sha256}.safetensors", sha256, start, found, checkpoint)
        recipes.append(recipe)
        start += rows
    for name in sorted({part.file for recipe in recipes for part in recipe.parts}):
        if sha256_file(checkpoint / name) != hashes[name]:
            raise VerificationFailed("not the file that the lock names", where=str(checkpoint / name))
    return tuple(recipes)


def fetch_head(recipe: HeadRecipe, target: Path, *, open_file: FileOpener, observer: Observer) -> None:
    """Write a head file from the checkpoint's tensors; what an earlier try fetched is kept.

    Args:
        recipe: What it is made of; hostile.
        target: The file to write; `<target>.partial` beside it while it grows.
        open_file: Where the checkpoint's files are read from.
        observer: Told of progress, in bytes.

    Raises:
        MissingPrerequisite: the checkpoint cannot be reached, or the transfer broke off; the next try resumes.
        VerificationFailed: the checkpoint has no such tensor, or the file is not the one that the pack names.
    """
    where = f"heads/{recipe.sha256[:12]}"
    try:
        header = base64.b64decode(recipe.header, validate=True)
    except (ValueError, binascii.Error) as error:
        raise VerificationFailed("its header is not base64", where=where) from error
    partial = target.with_name(f"{target.name}.partial")
    digest = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a+b") as out:
        if out.tell() >= recipe.size_bytes:
            out.truncate(0)
        out.seek(0)
        while block := out.read(_READ_BYTES):
            digest.update(block)
        kept = out.tell()
        observer.advance(kept)
        for block in _bytes(recipe, header, kept, open_file, where):
            digest.update(block)
            out.write(block)
            observer.advance(len(block))
        size = out.tell()
        out.flush()
        os.fsync(out.fileno())
    if size != recipe.size_bytes or digest.hexdigest() != recipe.sha256:
        partial.unlink()
        raise VerificationFailed(
            "what the checkpoint gives is not the head that the pack names",
            where=where,
            hint="name the checkpoint of the pack's lock, at its commit, with --checkpoint",
        )
    partial.replace(target)


def _bytes(recipe: HeadRecipe, header: bytes, skip: int, open_file: FileOpener, where: str) -> Iterator[bytes]:
    """The file's bytes from `skip` on, and never more of them than the recipe says."""
    at = 0

    def rest(data: bytes) -> bytes:
        return data[max(skip - at, 0) :]

    yield rest(header)
    at += len(header)
    headers: dict[str, dict[str, TensorEntry]] = {}
    for part in recipe.parts:
        source = open_file(part.file)
        if part.file not in headers:
            headers[part.file] = _read_header(source)
        tensor = headers[part.file].get(part.tensor)
        if tensor is None or part.start + part.rows > tensor.shape[0]:
            raise VerificationFailed(
                f"the checkpoint's {part.file} has no rows {part.start:,} to {part.start + part.rows:,} of "
                f"{part.tensor!a}",
                where=where,
            )
        size = part.rows * tensor.row_bytes
        if at + size + part.zeros_bytes > recipe.size_bytes:
            raise VerificationFailed("its parts are larger than itself", where=where)
        ahead = min(max(skip - at, 0), size)
        yield from _range(source, tensor.offset_bytes + part.start * tensor.row_bytes + ahead, size - ahead)
        at += size
        for offset in range(0, part.zeros_bytes, _READ_BYTES):
            zeros = bytes(min(_READ_BYTES, part.zeros_bytes - offset))
            yield rest(zeros)
            at += len(zeros)


def _range(source: BytesSource, offset: int, size: int) -> Iterator[bytes]:
    if not size:
        return
    with transfer(source.name), closing(source.open_at(offset, size)) as stream:
        while size:
            data = stream.read(min(size, _READ_BYTES))
            if not data:
                raise VerificationFailed("the checkpoint's file ends inside the tensor", where=source.name)
            size -= len(data)
            yield data


def _plan(
    path: Path, sha256: str, start: int, tensors: Sequence[tuple[str, str, TensorEntry]], checkpoint: Path
) -> tuple[HeadRecipe, int]:
    """The recipe of one head whose first row is row `start` of the vocabulary, and its number of rows."""
    entries = sorted(open_tensors(path).tensors.items(), key=lambda item: item[1].offset_bytes)
    with path.open("rb") as stream:
        header = stream.read(entries[0][1].offset_bytes)
    if len(header) > HEAD_HEADER_LIMIT_BYTES:
        raise InvalidInput(f"its header has more than {HEAD_HEADER_LIMIT_BYTES:,} bytes", where=str(path))
    parts = []
    for name, mine in entries:
        for file, tensor, theirs in tensors:
            if tensor.endswith(f".{name}") or tensor == name:
                rows = min(mine.shape[0], theirs.shape[0] - start) if _alike(mine, theirs) else 0
                if rows > 0 and _same(path, mine, checkpoint / file, theirs, start, rows):
                    zeros = (mine.shape[0] - rows) * mine.row_bytes
                    parts.append(HeadPart(file=file, tensor=tensor, start=start, rows=rows, zeros_bytes=zeros))
                    break
        else:
            raise InvalidInput(
                f"the {name} of this head does not lie in the checkpoint as the stack holds it",
                where=f"heads/{sha256[:12]}",
                hint="pack it with its head",
            )
    size = path.stat().st_size
    recipe = HeadRecipe(sha256=sha256, size_bytes=size, header=base64.b64encode(header).decode(), parts=tuple(parts))
    return recipe, dict(entries)["weight"].shape[0]


def _alike(mine: TensorEntry, theirs: TensorEntry) -> bool:
    return mine.dtype == theirs.dtype and mine.shape[1:] == theirs.shape[1:]


def _same(head: Path, mine: TensorEntry, file: Path, theirs: TensorEntry, start: int, rows: int) -> bool:
    """Whether the head's rows are rows of the checkpoint's tensor, and zeros after those."""
    left = rows * mine.row_bytes
    with head.open("rb") as ours, file.open("rb") as other:
        ours.seek(mine.offset_bytes)
        other.seek(theirs.offset_bytes + start * theirs.row_bytes)
        while left:
            count = min(left, _READ_BYTES)
            if ours.read(count) != other.read(count):
                return False
            left -= count
        padding = (mine.shape[0] - rows) * mine.row_bytes
        while padding:
            count = min(padding, _READ_BYTES)
            if ours.read(count).strip(b"\0"):
                return False
            padding -= count
    return True


def _read_header(source: BytesSource) -> dict[str, TensorEntry]:
    """Tensors of a safetensors file that a head may consist of, read by byte range.

    Raises:
        VerificationFailed: not such a file.
    """
    (length,) = struct.unpack("<Q", b"".join(_range(source, 0, 8)))
    if not 2 <= length <= _HEADER_LIMIT_BYTES:
        raise VerificationFailed("not a safetensors file", where=source.name)
    try:
        header = strict_json(b"".join(_range(source, 8, length)), where=source.name)
        heads = {
            name: item
            for name, item in header.items()
            if name != "__metadata__" and item["dtype"] in _DTYPES and item["shape"]
        }
        return tensor_entries(heads, base=8 + length)
    except (InvalidInput, KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerificationFailed(f"bad safetensors header: {error}", where=source.name) from error
