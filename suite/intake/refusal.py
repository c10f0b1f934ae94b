"""Errors of intake: each carries the code of its threat."""

from __future__ import annotations

from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.intake.report import Finding

TEXT_LIMIT_CHARACTERS = 400


class Refused(VerificationFailed):
    """Something hostile, or that contradicts itself. Exit code 5."""

    def __init__(self, code: str, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.code = code


class Unusable(InvalidInput):
    """Nothing that could be taken in is there. Exit code 2."""

    def __init__(self, code: str, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.code = code


def finding_of(error: SuiteError, *, code: str) -> Finding:
    """The finding that an error amounts to; `code` where it carries none of its own.

    A message may quote a stranger's file: it is cut, and what is not printable is escaped.
    """
    return Finding(
        code=getattr(error, "code", code),
        where=shown(error.where or ""),
        message=shown(error.message),
        hint=shown(error.hint or ""),
    )


def shown(text: str) -> str:
    """Text for a terminal or a page: at most 400 characters, what is not printable ASCII escaped."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    escaped = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)
    return escaped if len(escaped) <= TEXT_LIMIT_CHARACTERS else f"{escaped[: TEXT_LIMIT_CHARACTERS - 3]}..."
