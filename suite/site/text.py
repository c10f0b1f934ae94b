"""Text from bundles as it may be shown: what cannot be seen is made visible, what is too long is cut."""

from __future__ import annotations

import unicodedata

LIMIT = 400
"""Characters of one value, unless a template asks for more; a name of 10,000 characters is an attack on the layout."""

# Letters may be of any script; these may not be passed on: controls, format characters (direction overrides, zero-width
# joiners, tags), surrogates, private use, line and paragraph separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Cn"}
_KEPT = {"\n", "\t"}
_COMBINING_LIMIT = 4


def visible(text: str, *, limit: int = LIMIT, lines: bool = False) -> str:
    """`text` with every unseen character as `[U+202E]`, at most `limit` characters of it.

    Args:
        text: Anything.
        limit: Characters kept before the mark `… (10,000 characters)`.
        lines: Keep line feeds and tabs.
    """
    cut = text if len(text) <= limit else text[:limit]
    if not cut.isascii() or not cut.isprintable():
        cut = _spelt(cut, lines=lines)
    return cut if len(text) <= limit else f"{cut}… ({len(text):,} characters)"


def _spelt(text: str, *, lines: bool) -> str:
    out, marks = [], 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        if (lines and char in _KEPT) or (category not in _UNSEEN and marks <= _COMBINING_LIMIT):
            out.append(char)
        elif marks == 0:
            out.append(f"[U+{ord(char):04X}]")
    return "".join(out)
