"""Text from bundles inside Markdown: it stays text, whatever it holds."""

from __future__ import annotations

import re

from suite.bundle.show import shown

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#!|~&$])")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,:;=/+%@-]*\Z")


def escaped(text: object, *, limit: int = 300) -> str:
    """One line of printable ASCII in which nothing is markup, a link or a table's border.

    Args:
        text: Anything.
        limit: Characters kept.
    """
    plain = shown(text, limit=limit)
    return plain if _WORD.match(plain) and "://" not in plain else _SPECIAL.sub(r"\\\1", plain).replace("://", ":\\//")


def table(rows: list[tuple[str, ...]]) -> str:
    """A Markdown table whose first row holds the headers; cells are escaped already."""
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
