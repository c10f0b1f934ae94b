"""Checks made one after the other: each either says in one line what holds, or becomes a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from suite.bundle.report import Check
from suite.errors import SuiteError
from suite.intake.refusal import finding_of
from suite.intake.report import Finding

NamedCheck = tuple[str, Callable[[], str]]
"""A name, and a check that returns one line or raises a `SuiteError`."""


class Checking:
    """What was checked so far, and what was found."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.checks: list[Check] = []
        self.findings: list[Finding] = []

    def run(self, checks: Iterable[NamedCheck]) -> bool:
        """Make all of them, also after one failed; returns whether all held."""
        before = len(self.findings)
        for name, check in checks:
            try:
                self.checks.append(Check(name=name, outcome="passed", detail=check()))
            except SuiteError as error:
                self.refuse(name, finding_of(error, code=name.replace(" ", "-").lower()))
        return len(self.findings) == before

    def refuse(self, name: str, finding: Finding) -> None:
        """Note a finding of the check `name`."""
        self.checks.append(Check(name=name, outcome="failed", detail=str(finding)))
        # Two checks may stumble over the same file.
        if finding not in self.findings:
            self.findings.append(finding)
