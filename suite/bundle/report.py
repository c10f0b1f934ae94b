"""What a verification found: each check with its outcome, and why a check could not be made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from suite.errors import VerificationFailed

Outcome = Literal["passed", "failed", "not done"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was, or could not be, checked."""

    name: str
    outcome: Outcome
    detail: str
    """What holds, what differs first, or why the check was not made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All checks of one bundle, in the order in which they were made."""

    folder: Path
    checks: tuple[Check, ...]

    @property
    def failure(self) -> Check | None:
        """The first check that failed."""
        return next((check for check in self.checks if check.outcome == "failed"), None)

    def require_passed(self) -> None:
        """Turn a failed check into an error.

        Raises:
            VerificationFailed: naming the first thing that differs.
        """
        if self.failure:
            raise VerificationFailed(
                f"{self.failure.name}: {self.failure.detail}",
                where=str(self.folder),
                hint="do not quote this bundle; get it again from its author, or run its manifest",
            )

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "bundle": self.folder.name,
            "verified": self.failure is None,
            "checks": [{"name": c.name, "outcome": c.outcome, "detail": c.detail} for c in self.checks],
        }
