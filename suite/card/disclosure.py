"""One place at which a card discloses a field, and what such places have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from suite.card.document import Statement
from suite.card.patterns import DTYPES
from suite.card.words import Side, side_before


@dataclass(frozen=True, kw_only=True, slots=True)
class Disclosure:
    """One place at which a card says something about a field."""

    value: str
    """In one spelling, so that two places can be compared."""
    statement: Statement
    side: Side | None = None
    partial: str = ""
    """What is lacking for it to count, for instance `a tag can move`; empty where it counts."""


Finder = Callable[[Statement], Iterator[Disclosure]]
"""Yields what a statement discloses of one field."""
EFFECTIVE = "say what the engine really used"


def label_of(statement: Statement) -> str:
    """A statement's label in words."""
    return statement.label.replace("_", " ")


def key_of(statement: Statement) -> str:
    """What names the value: the header, in a table of two columns the first cell, the last key of a path."""
    label = label_of(statement)
    return label.split(" | ")[0] if statement.kind == "cell" else label


def side_of(statement: Statement, position: int = 0) -> Side | None:
    """The side that the text up to `position`, the label or the innermost heading names."""
    return (
        side_before(statement.text, position)
        or side_before(label_of(statement), len(statement.label))
        or (side_before(statement.section[-1], 10_000) if statement.section and statement.kind != "prose" else None)
    )


def dtype_name(text: str) -> str:
    """One spelling of a dtype: `bf16`, `fp16`, `fp32`, else lower case."""
    lower = text.lower()
    return DTYPES.get(lower, lower)
