"""Where a statement discloses how a measurement was made: text, positions, direction, storage, aggregation.

Each finder yields what it found and what is lacking in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from suite.card.claims import is_n_label, stated_n
from suite.card.disclosure import Disclosure, Finder, key_of, label_of
from suite.card.document import Statement
from suite.card.numbers import find_numbers
from suite.card.patterns import (
    AGGREGATION,
    ANY_HASH,
    BACKWARD,
    CALIBRATION,
    CONTEXT,
    CONTEXT_LABEL,
    DIRECTION_WORDS,
    EVERY,
    FLOOR,
    FORWARD,
    IMAGE,
    LETTERS,
    NOT_TEXT,
    PRECISION,
    SPANS,
    SPANS_LABEL,
    STORED,
    STRIDE,
    TEXT,
    TEXT_NAME,
    VOCABULARY,
    VOCABULARY_LABEL,
)


def direction(statement: Statement) -> Iterator[Disclosure]:
    """Which side stands first in a KL divergence."""
    said = statement.said
    forward, backward = FORWARD.search(said), BACKWARD.search(said)
    if LETTERS.search(said) and not re.search(r"\b[PQ]\b\s*(?:=|is|:|being|denotes|the)", said):
        letters = (forward and "Q" in forward[0].upper() and "P" in forward[0].upper()) or backward
        if letters and not re.search(r"ref|base|cand|quant", said, re.IGNORECASE):
            yield Disclosure(
                value="P||Q", statement=statement, partial="writes P and Q without saying which is the reference"
            )
            return
    if re.search(r"\b[PQ]\b\s*(?:=|is|:|being|denotes|the)", said):
        p_is = re.search(r"\bP\b\s*(?:=|is|:|being|denotes)?\s*(?:the\s)?(.{0,30})", said)
        if p_is and re.match(r"(?i)\s*(?:cand|quant|student)", p_is[1]):
            forward, backward = backward, forward
    if forward or DIRECTION_WORDS.search(said):
        yield Disclosure(value="KL(ref||cand)", statement=statement)
    if backward:
        yield Disclosure(value="KL(cand||ref)", statement=statement)


def text_hash(statement: Statement) -> Iterator[Disclosure]:
    """A hash beside words that name a text."""
    said = f"{label_of(statement)}: {statement.text}"
    if not TEXT.search(said):
        return
    for match in ANY_HASH.finditer(statement.text):
        before = said[: said.index(statement.text) + match.start()]
        words = [m.end() for m in TEXT.finditer(before)]
        others = [m.end() for m in re.finditer(rf"{NOT_TEXT.pattern}|{IMAGE.pattern}", before, re.IGNORECASE)]
        if words and (not others or max(words) > max(others)):
            yield Disclosure(value=match[1], statement=statement)
            return
    named = TEXT_NAME.search(statement.text)
    if named and not CALIBRATION.search(said):
        yield Disclosure(
            value=named[0].lower(), statement=statement, partial=f"names {named[0]} without a hash of the text"
        )


def positions(statement: Statement) -> Iterator[Disclosure]:
    """The number of positions."""
    if statement.kind == "command" or CALIBRATION.search(statement.said) or FLOOR.search(statement.said):
        return
    readings = ((text, comma) for comma in (False, True) for text in (statement.text, label_of(statement)))
    number = next(filter(None, (stated_n(text, comma=comma) for text, comma in readings)), None)
    last = key_of(statement)
    if number is None and (
        is_n_label(last) or re.search(r"\b(?:n|(?:num )?(?:positions|probes)|positions n|n positions)$", last)
    ):
        number = next((n for n in find_numbers(statement.text) if n.is_whole), None)
    if number is not None:
        yield Disclosure(value=f"{int(number.value)}", statement=statement)


def stride(statement: Statement) -> Iterator[Disclosure]:
    """Every how many tokens a position lies."""
    text = statement.text
    if re.search(r"\bstride\b", label_of(statement), re.IGNORECASE) and (number := re.search(r"\d+", text)):
        yield Disclosure(value=number[0], statement=statement)
        return
    for pattern in STRIDE:
        if match := pattern.search(text):
            yield Disclosure(value=match[1], statement=statement)
            return
    if EVERY.search(text):
        yield Disclosure(value="1", statement=statement)


def spans(statement: Statement) -> Iterator[Disclosure]:
    """What the positions lie on."""
    if statement.kind == "command":
        return
    if SPANS_LABEL.search(label_of(statement)) or SPANS.search(statement.text) or EVERY.search(statement.text):
        yield Disclosure(value=statement.text[:80].lower(), statement=statement)


def _whole_number(
    statement: Statement, label: re.Pattern[str], patterns: tuple[re.Pattern[str], ...]
) -> Iterator[Disclosure]:
    text = statement.text
    # "100.000" is a hundred thousand in half of Europe.
    numbers = [n for comma in (False, True) for n in find_numbers(text, decimal_comma=comma) if n.is_whole]
    found = next(
        (n for p in patterns for m in p.finditer(text) for n in numbers if m.start() <= n.start <= m.end()), None
    )
    if found is None and numbers and label.search(label_of(statement)) and text.strip().startswith(numbers[0].text[0]):
        found = numbers[0]
    if found is not None:
        yield Disclosure(value=f"{int(found.value)}", statement=statement)


def context(statement: Statement) -> Iterator[Disclosure]:
    """The context length of the measurement."""
    flags = (
        re.search(r"(?:--ctx-size|-c|--max-model-len)[= ]+(\d+)", statement.text)
        if statement.kind == "command"
        else None
    )
    if flags:
        limit = "--max-model-len" in flags[0]
        partial = f"gives only a limit, {flags[1]}, in a command" if limit else ""
        yield Disclosure(value=flags[1], statement=statement, partial=partial)
    elif statement.kind != "command":
        yield from _whole_number(statement, CONTEXT_LABEL, CONTEXT)


def vocabulary(statement: Statement) -> Iterator[Disclosure]:
    """The number of entries compared."""
    for found in _whole_number(statement, VOCABULARY_LABEL, VOCABULARY):
        if int(found.value) >= 1000:
            yield found


def said_by(pattern: re.Pattern[str]) -> Finder:
    """A finder for fields of which it is enough that they are spoken of."""

    def find(statement: Statement) -> Iterator[Disclosure]:
        if match := pattern.search(f"{label_of(statement)}: {statement.text}"):
            yield Disclosure(value=match[0].lower(), statement=statement)

    return find


def storage(statement: Statement) -> Iterator[Disclosure]:
    """The dtype in which rows were kept."""
    said = f"{label_of(statement)}: {statement.text}"
    match = PRECISION.search(statement.text)
    if match and statement.kind != "command" and re.search(
        rf"(?:{STORED.pattern})[^.]{{0,60}}{PRECISION.pattern}|{PRECISION.pattern}[- ](?:rows?|logits?|hidden)"
        rf"|storage|stored", said, re.IGNORECASE
    ):  # fmt: skip
        yield Disclosure(value=match[0].lower(), statement=statement)


def aggregation(statement: Statement) -> Iterator[Disclosure]:
    """How many numbers became one."""
    if match := AGGREGATION.search(statement.said):
        yield Disclosure(value=match[0].lower(), statement=statement)
