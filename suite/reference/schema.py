"""`pack.json`: the members of a reference pack by hash, and what they are a capture of.

Version 1 holds its heads. Version 2 leaves them out: it says of which rows of the checkpoint's tensors each is made.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from suite.capture.index import Count, Sha256
from suite.errors import VerificationFailed
from suite.files import canonical_json, strict_json
from suite.records import first_problem, refuse_newer

RECORD_NAME = "pack.json"
SCHEMA_VERSION = 2
LICENCE_CHARACTERS = 2000

_MIB = 1 << 20
_GIB = 1 << 30
RECORD_LIMIT_BYTES = 8 * _MIB
MEMBER_LIMIT = 16_384
"""Members of one pack, at most."""
TOTAL_LIMIT_BYTES = 512 * _GIB
"""All members of one pack together, at most."""
_TENSOR_LIMIT_BYTES = 8 * _GIB - 1
"""What the size field of a plain tar header can say."""

FIXED_MEMBERS = {"lock.json": 16 * _MIB, "index.json": 64 * _MIB, "receipt.json": 16 * _MIB}
"""Members of every pack, with the largest size accepted in bytes."""
_TENSOR_MEMBER = re.compile(r"(chunk-[0-9]{5,9}|heads/[0-9a-f]{64})\.safetensors")

HEAD_LIMIT = 64
"""Heads (ranks) of one pack, at most."""
HEAD_HEADER_LIMIT_BYTES = 4096
_FILE = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*){0,3}$"

Timestamp = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Member(_Strict):
    """One file of a pack, apart from `pack.json` itself."""

    path: Annotated[str, Field(max_length=200)]
    size_bytes: Annotated[int, Field(gt=0, le=_TENSOR_LIMIT_BYTES)]
    sha256: Sha256


class HeadPart(_Strict):
    """Rows of a checkpoint's tensor, as they lie there, and zeros after them."""

    file: Annotated[str, Field(max_length=200, pattern=_FILE)]
    """A safetensors file of the checkpoint."""
    tensor: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$")]
    start: Count
    """Its first row."""
    rows: Annotated[int, Field(gt=0, le=1 << 32)]
    zeros_bytes: Annotated[int, Field(ge=0, le=_GIB)]
    """Padding rows that the stack added to the vocabulary."""


class HeadRecipe(_Strict):
    """A head file that is not in the pack: all its bytes, from the checkpoint that the lock names."""

    sha256: Sha256
    size_bytes: Annotated[int, Field(gt=0, le=_TENSOR_LIMIT_BYTES)]
    header: Annotated[str, Field(max_length=HEAD_HEADER_LIMIT_BYTES * 4 // 3 + 4)]
    """Base64 of what precedes its tensors."""
    parts: Annotated[tuple[HeadPart, ...], Field(min_length=1, max_length=2)]
    """Its weight, and its bias where there is one, in the order of the file."""

    @property
    def path(self) -> str:
        """Where it would lie in a pack."""
        return f"heads/{self.sha256}.safetensors"


class PackRecord(_Strict):
    """The whole of `pack.json`. It names every other byte of the pack, so its hash stands for the pack."""

    schema_version: Literal[1, 2]
    created: Timestamp
    """When the capture was made, UTC."""
    reference_lock_digest: Sha256
    capture_digest: Sha256
    tokens_sha256: Sha256
    num_rows: Annotated[int, Field(gt=0, le=1 << 24)]
    start: Count
    """Which fresh start of the reference it is."""
    licence: Annotated[str, Field(max_length=LICENCE_CHARACTERS, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
    """What its maker says about using it."""
    members: Annotated[tuple[Member, ...], Field(min_length=1, max_length=MEMBER_LIMIT)]
    """In the order in which they lie in the pack."""
    heads: Annotated[tuple[HeadRecipe, ...], Field(max_length=HEAD_LIMIT)] = ()
    """Version 2: the heads that are not members, in the order of ranks."""

    @model_validator(mode="after")
    def _plain(self) -> Self:
        paths = [member.path for member in self.members]
        if (self.schema_version == 2) != bool(self.heads):
            raise ValueError(f"heads: version {self.schema_version} with {len(self.heads)} heads left out")
        left_out = [head.path for head in self.heads]
        if len(set(left_out)) < len(left_out) or set(left_out) & set(paths):
            raise ValueError("heads: a head is named twice")
        for member in self.members:
            if why := refusal(member.path, member.size_bytes):
                raise ValueError(f"members: {member.path!a}: {why}")
        if len(set(paths)) != len(paths):
            raise ValueError("members: a file is listed twice")
        if absent := FIXED_MEMBERS.keys() - set(paths):
            raise ValueError(f"members: {min(absent)} is absent")
        if paths != sorted(paths, key=member_order):
            raise ValueError("members: not in the order of a pack")
        if self.total_bytes > TOTAL_LIMIT_BYTES:
            raise ValueError(f"members: {self.total_bytes:,} bytes together; at most {TOTAL_LIMIT_BYTES:,} are read")
        return self

    @property
    def total_bytes(self) -> int:
        """Size of all members, in bytes."""
        return sum(member.size_bytes for member in self.members)

    def member(self, path: str) -> Member:
        """The member `path`, which must be one."""
        return next(member for member in self.members if member.path == path)

    def to_bytes(self) -> bytes:
        """The content of `pack.json`: canonical JSON."""
        return canonical_json(self.model_dump(mode="json", exclude=None if self.heads else {"heads"}))


def refusal(path: str, size_bytes: int) -> str | None:
    """Why a pack may not hold such a file; None if it may."""
    if path in FIXED_MEMBERS:
        limit = FIXED_MEMBERS[path]
    elif _TENSOR_MEMBER.fullmatch(path):
        limit = _TENSOR_LIMIT_BYTES
    else:
        return name_refusal(path)
    return None if size_bytes <= limit else f"{size_bytes:,} bytes; at most {limit:,} are read"


def name_refusal(path: str) -> str:
    """What is wrong with a name that no pack holds."""
    if path.startswith(("/", "\\")) or path[1:2] == ":":
        return "an absolute path"
    if ".." in re.split(r"[/\\]", path):
        return "a path that leads out of the pack"
    if path.count("/") > 1:
        return "nested deeper than a pack is"
    return "no pack holds such a file"


def member_order(path: str) -> tuple[int, str]:
    """Sort key of members: what is small and decides first, then heads, then chunks."""
    fixed = list(FIXED_MEMBERS)
    if path in fixed:
        return fixed.index(path), path
    return (len(fixed) if path.startswith("heads/") else len(fixed) + 1), path


def parse_record(data: bytes, *, where: str) -> PackRecord:
    """Parse the bytes of a `pack.json`, which must be exactly those that `PackRecord.to_bytes` gives.

    Raises:
        InvalidInput: not strict JSON, or a newer schema.
        VerificationFailed: not the record of a pack that may be read; the member or key is named.
    """
    refuse_newer(strict_json(data, where=where), newest=SCHEMA_VERSION, where=where)
    try:
        record = PackRecord.model_validate_json(data)
    except ValidationError as error:
        raise VerificationFailed(
            f"not the record of a reference pack: {first_problem(error)}",
            where=where,
            hint="do not use this pack; get it again from its maker",
        ) from error
    if record.to_bytes() != data:
        raise VerificationFailed("not written in the form of a pack's record", where=where)
    return record
