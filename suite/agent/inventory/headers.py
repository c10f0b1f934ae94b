"""The `Field: value` blocks that dpkg's status file and Python's METADATA share."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FIELD = re.compile(r"([!-9;-~]+):(.*)", re.DOTALL)

Fields = dict[str, list[str]]


def blocks(text: str) -> Iterator[Fields]:
    """Blocks separated by blank lines, as lower-case field name -> its values in order.

    A line that starts with a space or tab continues the value before it. A line that is neither a field nor a
    continuation is passed over, so that one damaged line costs at most its own field.
    """
    fields: Fields = {}
    last: list[str] | None = None
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        if not line.strip(" \t"):
            if fields:
                yield fields
            fields, last = {}, None
        elif line[0] in " \t":
            if last is not None:
                last[-1] += "\n" + line.strip(" \t")
        elif match := _FIELD.fullmatch(line):
            last = fields.setdefault(match.group(1).lower(), [])
            last.append(match.group(2).strip(" \t"))
        else:
            last = None
    if fields:
        yield fields


def first(fields: Fields, name: str) -> str | None:
    """The first non-empty value of a field."""
    return next((value for value in fields.get(name, ()) if value), None)
