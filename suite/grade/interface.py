"""What a tool-call grammar is, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class State(StrEnum):
    """Where the text stands after a piece of it."""

    OUTSIDE = "outside"
    ENVELOPE = "in envelope"
    NAME = "in name"
    ARGUMENT_NAME = "in argument name"
    VALUE = "in value"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """The first place at which a text leaves its format."""

    position: int
    """In characters from the start of the output."""
    message: str
    at_end: bool = False
    """The text simply ended here: a longer one could still have been right."""

    def to_json(self) -> dict[str, Any]:
        """Position and message."""
        return {"position": self.position, "message": self.message}


@dataclass(kw_only=True, slots=True)
class RawCall:
    """One call as its text has it; a grammar fills it in while it reads."""

    start: int
    """First character of the call, in characters from the start of the output."""
    end: int | None = None
    """One past its last character; None while it is open."""
    closed: bool = False
    """The envelope was closed, whatever stands inside it."""
    name: str | None = None
    name_position: int | None = None
    arguments: dict[str, Any] | None = None
    """Values as the text types them; for `untyped` names they are text that the tool's schema types."""
    untyped: frozenset[str] = frozenset()
    marked_json: frozenset[str] = frozenset()
    """Untyped names that the text marks as JSON (DeepSeek V3.2's `string="false"`)."""
    positions: dict[str, int] = field(default_factory=dict)
    """Where the value of each argument starts."""
    partial: Any = None
    """What was read of the arguments when a fault or the end came."""
    fault: Fault | None = None
    in_reasoning: bool = False
    needs_stop_token: bool = False
    """Closed only by the end of the text: the format's stop token is missing, as servers that strip it leave it."""

    @property
    def parsed(self) -> bool:
        """Closed, and right from its first character to its last."""
        return self.closed and self.fault is None

    def fail(self, fault: Fault) -> None:
        """Record a fault; only the first one counts."""
        if self.fault is None:
            self.fault = fault


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A whole output, read by one grammar."""

    format: str
    calls: tuple[RawCall, ...]
    stray: Fault | None
    """The first piece of call syntax outside any call."""
    length: int
    """Characters in the output."""


class Grammar(Protocol):
    """Reads one output, piece by piece. Total: no text makes it raise, and the time is linear in the length."""

    name: str
    """The format, as `--format` has it."""

    @property
    def state(self) -> State:
        """Where the text stands after all that was fed."""

    def feed(self, text: str) -> State:
        """Read the next piece. Bytes that are not UTF-8 arrive as lone surrogates (`surrogateescape`)."""

    def finish(self) -> Parsed:
        """The text is at its end. Nothing may be fed afterwards."""
