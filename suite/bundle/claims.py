"""What a bundle claims, held against what was found or computed again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from suite.bundle.schema import RECORD_NAME
from suite.errors import VerificationFailed


def require_same(what: str, claimed: object, found: object, *, where: str) -> None:
    """Hold one claim of a bundle against what was found in the file `where`.

    Raises:
        VerificationFailed: they differ.
    """
    if claimed != found:
        raise VerificationFailed(f"{what}: the bundle claims {claimed}, found {found}", where=where)


def require_same_value(what: str, claimed: Any, found: Any) -> None:
    """Hold a claimed value of `bundle.json` against the recomputed one: records, or tuples of them.

    Raises:
        VerificationFailed: they differ; the first key that does is named.
    """
    difference = _first_difference(_plain(claimed), _plain(found), what)
    if difference:
        key, ours, theirs = difference
        raise VerificationFailed(f"{key}: the bundle claims {ours}, recomputed {theirs}", where=RECORD_NAME)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _first_difference(ours: Any, theirs: Any, key: str) -> tuple[str, Any, Any] | None:
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        pairs = ((ours[name], theirs[name], f"{key}.{name}") for name in ours)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = ((a, b, f"{key}[{i}]") for i, (a, b) in enumerate(zip(ours, theirs, strict=True)))
    else:
        return None if ours == theirs and type(ours) is type(theirs) else (key, _short(ours), _short(theirs))
    return next((found for a, b, name in pairs if (found := _first_difference(a, b, name))), None)


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
