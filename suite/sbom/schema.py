"""`inventory.json` as it crosses from a stack into the suite: checked once, then trusted."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.errors import InvalidInput
from suite.files import strict_json

MAX_ENTRIES = 1_000_000


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class OperatingSystem(_Model):
    """From os-release."""

    id: str | None
    version_id: str | None
    pretty_name: str | None


class DebianPackage(_Model):
    """One installed block of dpkg's status file."""

    name: str = Field(min_length=1)
    version: str | None
    architecture: str | None
    source: str
    source_version: str | None
    state: str
    md5sums_sha256: str | None
    found_in: list[str]


class DirectUrl(_Model):
    """Where a distribution came from, without credentials and local folders."""

    url: str
    commit: str | None = None
    sha256: str | None = None


class Distribution(_Model):
    """One `*.dist-info` or `*.egg-info`."""

    name: str = Field(min_length=1)
    version: str | None
    licence: str | None
    licence_kind: Literal["expression", "text", "classifier"] | None
    installer: str | None
    requested: bool
    editable: bool
    direct_url: DirectUrl | None
    record_sha256: str | None
    content_sha256: str | None
    dpkg_owner: str | None
    found_in: list[str]


class UnownedFile(_Model):
    """One ELF file that no package owns."""

    path: str = Field(min_length=1)
    size_bytes: int = Field(ge=0)
    sha256: str | None
    type: Literal["shared_object", "executable"]
    mounted: bool


class Finding(_Model):
    """Something that could not be read or looks wrong."""

    code: str
    path: str
    detail: str


class Inventory(_Model):
    """All that `suite.agent.inventory` read."""

    schema_version: Literal[1]
    operating_system: OperatingSystem | None
    dpkg: list[DebianPackage] = Field(max_length=MAX_ENTRIES)
    python: list[Distribution] = Field(max_length=MAX_ENTRIES)
    files: list[UnownedFile] = Field(max_length=MAX_ENTRIES)
    findings: list[Finding] = Field(max_length=MAX_ENTRIES)


def load_inventory(data: bytes, *, where: str) -> Inventory:
    """Parse the bytes of an `inventory.json`.

    Raises:
        InvalidInput: not an inventory, or one of a newer suite.
    """
    value = strict_json(data, where=where)
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, int) and version > 1:
        raise InvalidInput(
            f"the inventory has schema version {version}, this suite reads 1", where=where, hint="update suite"
        )
    try:
        return Inventory.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"not an inventory: {key}: {first['msg']}", where=where) from error
