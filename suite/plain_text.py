"""A stranger's words as a record may hold them: bounded, printable, without tricks of direction or invisible marks."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

LIMIT_CHARACTERS = 2_000
# Control, format (direction marks, zero-width), surrogate, private, unassigned, line and paragraph separators.
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def require_plain(text: str) -> str:
    """The same text.

    Raises:
        ValueError: it holds a character that is not printable, other than a line break.
    """
    for place, character in enumerate(text):
        if character != "\n" and unicodedata.category(character) in _REFUSED:
            raise ValueError(f"character {place + 1} (U+{ord(character):04X}) is not printable")
    return text


PlainText = Annotated[str, Field(max_length=LIMIT_CHARACTERS), AfterValidator(require_plain)]
"""Text of a record: at most 2,000 printable characters and line breaks; never markup."""
