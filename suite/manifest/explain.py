"""Validation errors in the words of the manifest's author: the key, its line, what may stand there."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from suite.manifest.keys import dotted
from suite.manifest.problems import Problem
from suite.manifest.strict_yaml import Document, KeyPath

_WORD_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_PATTERNS = {
    "^sha256:[0-9a-f]{64}$": "must be `sha256:` and 64 lower-case hex characters (a tag is not a digest)",
    "^[0-9a-f]{64}$": "must be 64 lower-case hex characters",
    "^[0-9a-f]{40}$": "must be a whole commit: 40 lower-case hex characters (a branch or tag moves)",
    "^[a-z0-9][a-z0-9._-]{0,79}$": "must be at most 80 lower-case letters, digits, `.`, `_` and `-`",
    "^[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*$": "must be a path of letters, digits and `._@+-`, from the repository",
    "^[A-Za-z0-9._@+/-]+\\.ya?ml$": "must be the path of a .yaml file, of letters, digits and `._@+-`",
}
_SHOWN_CHARACTERS = 60


def explain(error: ValidationError, document: Document) -> Iterator[Problem]:
    """Yield one problem for each faulty key of `document`.

    Args:
        error: What validation of `document.value` raised.
        document: The merged document, with places.
    """
    seen: set[KeyPath] = set()
    for item in error.errors(include_url=False):
        path, rest = _locate(document, item["loc"])
        full = (*path, *rest) if item["type"] == "missing" else path
        # A union tells the same fault once for each member, and a list its length once more for each faulty item.
        if full in seen or (item["type"] == "too_short" and any(other[: len(full)] == full for other in seen)):
            continue
        seen.add(full)
        place = next(document.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in document.places)
        yield Problem(place=place, key=dotted(full), message=_message(item))


def _locate(document: Document, loc: tuple[int | str, ...]) -> tuple[KeyPath, KeyPath]:
    """Split a location into the part that stands in the file and the key that does not. Union tags are dropped."""
    node: Any = document.value
    path: KeyPath = ()
    rest: KeyPath = ()
    for part in loc:
        rest = (part,)
        if isinstance(node, dict) and part in node:
            node = node[str(part)]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            continue
        path, rest = (*path, part), ()
    return path, rest


def _message(item: Any) -> str:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "bool_type":
        meant = _WORD_BOOLEANS.get(str(value).lower())
        return f"must be true or false, not {_show(value)}" + (f"; write {meant}" if meant else "")
    if kind == "int_type":
        return f"must be a whole number in decimal digits, not {_show(value)}"
    if kind == "string_type":
        if isinstance(value, bool | int):
            return f'must be text; quote it: "{str(value).lower()}"'
        return f"must be text, not {_show(value)}"
    if kind == "literal_error":
        allowed = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        near = difflib.get_close_matches(str(value), allowed, n=1)
        return f"must be one of {', '.join(allowed)}, not {_show(value)}" + (
            f"; did you mean {near[0]}?" if near else ""
        )
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        return f"{_PATTERNS.get(pattern, f'must match {pattern}')}, not {_show(value)}"
    text = str(item["msg"]).removeprefix("Value error, ")
    return text if kind == "value_error" else text[:1].lower() + text[1:] + f", not {_show(value)}"


def _show(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
