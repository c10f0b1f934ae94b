"""Finding a literal as a whole word: `GigabitEthernet0/0/1` is not found inside `GigabitEthernet0/0/1.201`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_JOINERS = "./:-"


def occurrences(literal: str, text: str) -> Iterator[tuple[int, int]]:
    """Half-open character ranges in which `literal` stands in `text` as a whole word.

    A neighbour that is a letter, digit or underscore makes it part of a longer word; so does one of `. / : -`
    with such a character behind it (`10.0.0.5` is not found in `10.0.0.5/24`, but is before a full stop).
    """
    if not literal:
        return
    joined = re.escape(_JOINERS)
    before = rf"(?<!\w)(?<!\w[{joined}])" if _is_word(literal[0]) else ""
    after = rf"(?!\w)(?![{joined}]\w)" if _is_word(literal[-1]) else ""
    for match in re.finditer(before + re.escape(literal) + after, text):
        yield match.span()


def _is_word(character: str) -> bool:
    return re.match(r"\w", character) is not None
