"""The packs that a repository knows: one file that names each by address, digest and signer, so that a run finds it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from suite.capture.index import CapturePath, Sha256
from suite.errors import InvalidInput, VerificationFailed
from suite.files import pretty_json, write_atomic
from suite.records import first_problem, parse_strictly
from suite.reference.pull import PackHead
from suite.reference.schema import LICENCE_CHARACTERS, TOTAL_LIMIT_BYTES

INDEX_PATH = Path("references") / "index.json"
"""Below a repository's root."""
SCHEMA_VERSION = 1
INDEX_LIMIT_BYTES = 4 << 20
PACK_LIMIT = 4096
_URL = re.compile(
    r"(https?|s3|gs|hf|az|abfs)://[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~@+=%-]+)+"
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class IndexedPack(_Strict):
    """One pack."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,119}$")]
    """Of its manifest."""
    lock_digest: Sha256
    tokens_sha256: Sha256
    path: CapturePath
    num_rows: Annotated[int, Field(gt=0, le=1 << 24)]
    url: Annotated[str, Field(max_length=1000)]
    pack_digest: Sha256
    """SHA-256 of its `pack.json`."""
    size_bytes: Annotated[int, Field(gt=0, le=TOTAL_LIMIT_BYTES)]
    """All its members; heads that it leaves out are not among them."""
    signer: Annotated[str, Field(pattern=r"^ed25519:[0-9a-f]{64}$")] | None
    """Who must have signed it; None for an unsigned pack."""
    licence: Annotated[str, Field(max_length=LICENCE_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]*$")]

    @model_validator(mode="after")
    def _address(self) -> Self:
        if not _URL.fullmatch(self.url) or "/../" in f"{self.url}/" or "/./" in f"{self.url}/":
            raise ValueError("url: an address of http, https, s3, gs, hf, az or abfs without user, query and fragment")
        return self


class ReferenceIndex(_Strict):
    """The whole of `references/index.json`."""

    schema_version: Literal[1]
    packs: Annotated[tuple[IndexedPack, ...], Field(max_length=PACK_LIMIT)]
    """By name, then pack digest."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        keys = [(pack.name, pack.pack_digest) for pack in self.packs]
        if keys != sorted(set(keys)):
            raise ValueError("packs: not sorted by name and digest, each once")
        return self

    def to_bytes(self) -> bytes:
        """The file's content."""
        return pretty_json(self.model_dump(mode="json"))


def read_index(path: Path) -> ReferenceIndex:
    """Read an index.

    Raises:
        InvalidInput: absent, too large, not strict JSON, a newer version, or not an index; the key is named.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(INDEX_LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) > INDEX_LIMIT_BYTES:
        raise InvalidInput(f"more than {INDEX_LIMIT_BYTES:,} bytes", where=str(path))
    return parse_strictly(
        ReferenceIndex, data, where=str(path), newest=SCHEMA_VERSION, what="not an index of reference packs: "
    )


def indexed(head: PackHead, *, url: str) -> IndexedPack:
    """The entry of a pack that was looked into.

    Raises:
        InvalidInput: an address or name that no index may hold.
    """
    record, signed = head.record, head.signed
    signer = None if signed is None else signed.statement.signer
    value = {
        "name": head.lock.name,
        "lock_digest": record.reference_lock_digest,
        "tokens_sha256": record.tokens_sha256,
        "path": head.lock.capture.path,
        "num_rows": record.num_rows,
        "url": url,
        "pack_digest": head.digest,
        "size_bytes": record.total_bytes,
        "signer": signer,
        "licence": " ".join(record.licence.split()),
    }
    try:
        return IndexedPack.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(first_problem(error), where=url) from error


def add_to_index(path: Path, packs: Iterable[IndexedPack]) -> ReferenceIndex:
    """Write packs into an index, which is made where there is none; one of the same name and digest is replaced.

    Raises:
        InvalidInput: what is there is no index.
    """
    known = read_index(path).packs if path.exists() else ()
    merged = {(pack.name, pack.pack_digest): pack for pack in (*known, *packs)}
    index = ReferenceIndex(schema_version=1, packs=tuple(merged[key] for key in sorted(merged)))
    write_atomic(path, index.to_bytes())
    return index


def require_as_indexed(pack: IndexedPack, head: PackHead) -> None:
    """Refuse what lies at an indexed address if it is not the pack that the index names.

    Raises:
        VerificationFailed: another digest or lock, or its signer did not sign it.
    """
    claims = (
        ("pack_digest", pack.pack_digest, head.digest),
        ("lock_digest", pack.lock_digest, head.record.reference_lock_digest),
        ("tokens_sha256", pack.tokens_sha256, head.record.tokens_sha256),
        ("size_bytes", pack.size_bytes, head.record.total_bytes),
    )
    for key, wanted, found in claims:
        if wanted != found:
            raise VerificationFailed(
                f"{key}: the index says {wanted}, the pack {found}", where=pack.url, hint="do not use this pack"
            )
