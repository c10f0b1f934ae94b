"""Text from bundles as it may be shown: what cannot be seen is made visible, what is too long is cut."""

from __future__ import annotations

import re
import unicodedata

LIMIT = 400
"""Characters of one value, unless a template asks for more; a name of 10,000 characters is an attack on the layout."""

# Letters may be of any script; these may not be passed on: controls, format characters (direction overrides, zero-width
# joiners, tags), surrogates, private use, unassigned, line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Cn"})
_MARKS = frozenset({"Mn", "Me"})
_MOST_MARKS = 4
"""Combining marks on one letter; more of them reach into the lines above and below."""
_NOT_PLAIN = re.compile(r"[^ -~]+")
_NOT_PLAIN_LINES = re.compile(r"[^ -~\n\t]+")


def visible(text: str, *, limit: int = LIMIT, lines: bool = False) -> str:
    """`text` with every unseen character as `[U+202E]`, at most `limit` characters of it.

    Args:
        text: Anything.
        limit: Characters kept before the mark `… (10,000 characters)`.
        lines: Keep line feeds and tabs.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    cut = text[:limit]
    cut = (_NOT_PLAIN_LINES if lines else _NOT_PLAIN).sub(_spelt, cut)
    return cut if len(text) <= limit else f"{cut}… ({len(text):,} characters)"


def _spelt(found: re.Match[str]) -> str:
    out, marks = [], 0
    for char in found[0]:
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if category in _UNSEEN:
            out.append(f"[U+{ord(char):04X}]")
        elif marks <= _MOST_MARKS:
            out.append(char)
    return "".join(out)
