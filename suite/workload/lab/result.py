"""What a tool call gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """The text that the model reads."""

    content: str
    is_error: bool = False


class Refused(Exception):
    """A device, host or service does not do what was asked; the message is the text it answers with."""
