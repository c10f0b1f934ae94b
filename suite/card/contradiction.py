"""Two things that a card says and that do not go together."""

from __future__ import annotations

from dataclasses import dataclass

from suite.card.fields import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two things in a card that cannot both hold, or that may not stand together."""

    code: str
    level: Level
    message: str
    line: int
    field: str | None = None


def error(code: str, message: str, line: int, field: str | None = None) -> Contradiction:
    """One that cannot be excused."""
    return Contradiction(code=code, level="error", message=message, line=line, field=field)
