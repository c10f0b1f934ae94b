"""Notices: dated corrections and withdrawals, which are added and never edited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.bundle.schema import BundleId, Timestamp
from suite.capture.index import Sha256
from suite.errors import InvalidInput, VerificationFailed
from suite.files import pretty_json, read_regular, write_atomic
from suite.plain_text import PlainText
from suite.records import parse_strictly, timestamp
from suite.results.layout import NOTICES

SCHEMA_VERSION = 1
LIMIT_BYTES = 64 << 10


class Notice(BaseModel):
    """The whole of a notice's file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1] = 1
    kind: Literal["correction", "withdrawal"]
    created: Timestamp
    bundle_id: BundleId
    """The bundle it speaks of."""
    record_sha256: Sha256
    why: Annotated[PlainText, Field(min_length=1)]
    replaced_by: BundleId | None
    """A bundle to look at instead."""

    @model_validator(mode="after")
    def _other(self) -> Self:
        if not self.why.strip():
            raise ValueError("`why` is empty")
        if self.replaced_by == self.bundle_id:
            raise ValueError("a bundle cannot replace itself")
        return self

    @property
    def file_name(self) -> str:
        """`<UTC stamp>-<first 12 digits of record_sha256>.json`."""
        return f"{self.created.replace('-', '').replace(':', '')}-{self.record_sha256[:12]}.json"

    def to_bytes(self) -> bytes:
        """The content of its file."""
        return pretty_json(self.model_dump(mode="json"))


def next_moment(notices: Sequence[Notice], now: datetime) -> str:
    """`created` of one more notice of a bundle: now, or just after the latest of those that it has."""
    latest = max((notice.created for notice in notices), default="")
    if timestamp(now) > latest:
        return timestamp(now)
    return timestamp(datetime.fromisoformat(latest) + timedelta(seconds=1))


def parse_notice(data: bytes, *, where: str) -> Notice:
    """Parse the bytes of a notice.

    Raises:
        InvalidInput: not strict JSON, a newer schema, or a value that no notice has.
    """
    return parse_strictly(Notice, data, where=where, newest=SCHEMA_VERSION, what="not a notice: ")


def write_notice(notice: Notice, *, results: Path) -> Path:
    """Write `results/notices/<stamp>-<record>.json`.

    Raises:
        InvalidInput: a notice of this bundle and second exists.
    """
    path = results / NOTICES / notice.file_name
    if path.exists():
        raise InvalidInput("a notice of this bundle and second exists already", where=str(path), hint="try again")
    write_atomic(path, notice.to_bytes())
    return path


def read_notices(results: Path) -> tuple[Notice, ...]:
    """All notices below a results folder, oldest first.

    Raises:
        InvalidInput: a file is no notice.
        VerificationFailed: a file has another name than its content asks for, or is not a regular file.
    """
    folder = results / NOTICES
    if not folder.is_dir():
        return ()
    return tuple(read_notice(path) for path in sorted(folder.iterdir()) if not path.name.startswith("."))


def read_notice(path: Path) -> Notice:
    """One notice.

    Raises:
        InvalidInput: no notice.
        VerificationFailed: it has another name than its content asks for, or is not a regular file.
    """
    notice = parse_notice(read_regular(path, limit_bytes=LIMIT_BYTES), where=str(path))
    if path.name != notice.file_name:
        raise VerificationFailed(f"the file is not called {notice.file_name}", where=str(path))
    return notice
