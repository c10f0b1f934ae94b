"""What lies in a folder that passed the gate: each of its records is read, and all must agree."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from suite.bundle.report import Check
from suite.bundle.schema import RECORD_NAME
from suite.bundle.verify import verify_bundle
from suite.errors import SuiteError
from suite.intake.folder import Tree
from suite.intake.limits import Limits
from suite.intake.refusal import finding_of, shown
from suite.intake.report import Finding, IntakeReport


def contents_report(tree: Tree, *, results: Path | None, limits: Limits, now: datetime) -> IntakeReport:
    """Check what was sent.

    Args:
        tree: A folder that passed the gate.
        results: The results folder that it would join.
        limits: Bounds.
        now: The present.
    """
    from suite.bundle.read import open_bundle

    assert tree.marker == RECORD_NAME
    try:
        bundle = open_bundle(tree.folder)
    except SuiteError as error:
        return IntakeReport(what="bundle", findings=(finding_of(error, code="record"),))
    report = verify_bundle(tree.folder)
    failure = report.failure
    findings: tuple[Finding, ...] = ()
    if failure is not None:
        findings = (Finding(code=f"verify-{failure.name.replace(' ', '-')}", where="", message=shown(failure.detail)),)
    checks: tuple[Check, ...] = report.checks
    return IntakeReport(
        what="bundle",
        bundle_id=bundle.bundle_id,
        record_sha256=bundle.record.record_sha256,
        tier=None if findings else "self-reported",
        findings=findings,
        checks=checks,
    )
