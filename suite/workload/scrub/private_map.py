"""The private map: which value became which pseudonym, and the key. Whoever has it can undo the scrubbing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.errors import InvalidInput
from suite.files import pretty_json, read_json
from suite.records import refuse_newer

SCHEMA_VERSION = 1


@dataclass(kw_only=True, slots=True)
class Entry:
    """One value."""

    kind: str
    value: str
    pseudonym: str
    count: int = 0
    """How often it was replaced."""


@dataclass(kw_only=True, slots=True)
class PrivateMap:
    """Key and entries; grows with every session that is scrubbed with it."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    entries: list[Entry] = field(default_factory=list)

    def to_json(self) -> bytes:
        """The file's bytes."""
        values = [{"kind": e.kind, "value": e.value, "pseudonym": e.pseudonym, "count": e.count} for e in self.entries]
        return pretty_json({"schema_version": SCHEMA_VERSION, "key": self.key.hex(), "values": values})


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    kind: str
    value: str
    pseudonym: str
    count: int = Field(ge=0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    schema_version: Literal[1]
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    values: list[_Value]


def load_map(path: Path) -> PrivateMap:
    """Read a map file.

    Raises:
        InvalidInput: unreadable, of a newer version, or not such a file.
    """
    value = read_json(path)
    refuse_newer(value, newest=SCHEMA_VERSION, where=str(path))
    try:
        file = _File.model_validate(value)
    except ValidationError as error:
        raise InvalidInput("not a private map of `suite workload scrub`", where=str(path)) from error
    entries = [Entry(kind=v.kind, value=v.value, pseudonym=v.pseudonym, count=v.count) for v in file.values]
    return PrivateMap(key=bytes.fromhex(file.key), entries=entries)
