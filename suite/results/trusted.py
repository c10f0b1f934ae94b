"""`trusted-keys.json`: whose attestations may lift a bundle's tier here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.errors import InvalidInput
from suite.files import pretty_json, read_regular, write_atomic
from suite.plain_text import require_plain
from suite.records import parse_strictly
from suite.results.layout import TRUSTED_NAME
from suite.submission.schema import KeyId

SCHEMA_VERSION = 1
_LIMIT_BYTES = 1 << 20


class TrustedKey(BaseModel):
    """One key and whose it is."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    key_id: KeyId
    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: Literal["maintainer", "reproducer"]
    since: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    """The day on which it was listed."""

    @model_validator(mode="after")
    def _plain(self) -> Self:
        require_plain(self.name)
        return self


class TrustedKeys(BaseModel):
    """The whole of `trusted-keys.json`. The attestations of a key that is taken out of it lift no tier any more."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1] = 1
    keys: tuple[TrustedKey, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(self.key_ids) != len(self.keys):
            raise ValueError("a key is listed twice")
        return self

    @property
    def key_ids(self) -> frozenset[str]:
        """Of all keys."""
        return frozenset(key.key_id for key in self.keys)


def read_trusted(results: Path) -> TrustedKeys:
    """The keys trusted in a results folder; none where it has no such file.

    Raises:
        InvalidInput: no list of keys.
        VerificationFailed: not a regular file, or too large.
    """
    path = results / TRUSTED_NAME
    if not path.exists():
        return TrustedKeys()
    data = read_regular(path, limit_bytes=_LIMIT_BYTES)
    return parse_strictly(TrustedKeys, data, where=str(path), newest=SCHEMA_VERSION, what="not a list of keys: ")


def add_trusted(results: Path, key: TrustedKey) -> Path:
    """List one more key; returns the list's file.

    Raises:
        InvalidInput: it is listed already, or the list cannot be read.
    """
    known, path = read_trusted(results), results / TRUSTED_NAME
    if key.key_id in known.key_ids:
        raise InvalidInput("the key is listed already", where=str(path))
    keys = TrustedKeys(keys=(*known.keys, key))
    write_atomic(path, pretty_json(keys.model_dump(mode="json")))
    return path
