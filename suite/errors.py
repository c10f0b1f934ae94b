"""One error hierarchy: every error says what failed, where, and what to do next, and carries its exit code."""

from __future__ import annotations

from typing import ClassVar


class SuiteError(Exception):
    """Base of every error that a person is meant to read.

    Args:
        message: What failed, in one sentence.
        where: The file, line, key or position it concerns.
        hint: What to do next.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.hint}" if self.hint else text


class InvalidInput(SuiteError):
    """The user's input (file, flag, value) cannot be used as it stands. Exit code 2."""

    exit_code = 2


class MissingPrerequisite(SuiteError):
    """Something that must exist first is absent: a model, an engine, memory, disk. Exit code 3."""

    exit_code = 3


class RunFailed(SuiteError):
    """A run started and could not produce a valid result. Exit code 4."""

    exit_code = 4


class VerificationFailed(SuiteError):
    """Something does not follow from, or does not match, what it claims. Exit code 5."""

    exit_code = 5
