"""A record at a file's boundary: strict JSON, no newer version than is known, then its model; errors name the key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from suite.errors import InvalidInput
from suite.files import strict_json

_Model = TypeVar("_Model", bound=BaseModel)


def parse_strictly(
    kind: type[_Model], data: bytes, *, where: str, newest: int | None = None, what: str = "", hint: str | None = None
) -> _Model:
    """Read one record.

    Args:
        kind: Its model; refuses unknown keys.
        data: The file's bytes.
        where: The file, for messages.
        newest: The newest schema version that is read; None for a record that never has another.
        what: Before the first problem: `not a lock: `.
        hint: What to do where it is no such record.

    Raises:
        InvalidInput: not strict JSON, of a newer version, or no such record.
    """
    value = strict_json(data, where=where)
    if newest is not None:
        refuse_newer(value, newest=newest, where=where)
    return validated(kind, data, where=where, what=what, hint=hint)


def refuse_newer(value: Any, *, newest: int, where: str) -> None:
    """Refuse a newer schema version before anything else is said of the record.

    Raises:
        InvalidInput: `schema_version` is above `newest`, or is there and no whole number.
    """
    if not isinstance(value, dict) or "schema_version" not in value:
        return
    version = value["schema_version"]
    if type(version) is not int:  # `true` and `1.0` are equal to 1, and a model would take them
        raise InvalidInput("schema_version is no whole number", where=where)
    if version > newest:
        raise InvalidInput(
            f"schema version {version} is newer than this program reads ({newest})", where=where, hint="update suite"
        )


def validated(kind: type[_Model], data: bytes, *, where: str, what: str = "", hint: str | None = None) -> _Model:
    """The record in bytes that are known to be strict JSON.

    Raises:
        InvalidInput: no such record.
    """
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise InvalidInput(f"{what}{first_problem(error)}", where=where, hint=hint) from error


def first_problem(error: ValidationError) -> str:
    """The first of a model's problems, as `key: message`; a problem of the whole record has no key."""
    first = error.errors(include_url=False)[0]
    key, message = ".".join(map(str, first["loc"])), str(first["msg"]).removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def timestamp(moment: datetime) -> str:
    """A timezone-aware moment as records hold it: UTC, `YYYY-MM-DDTHH:MM:SSZ`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
