"""Everything that intake looks at in one path; runs in the bounded process, and reads nothing outside its arguments."""

from __future__ import annotations

import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from suite.errors import InvalidInput, SuiteError
from suite.intake.archive import unpack
from suite.intake.folder import Tree, gate_folder
from suite.intake.limits import LIMITS, Limits
from suite.intake.refusal import Unusable, finding_of, shown
from suite.intake.report import IntakeReport


def examine(
    path: Path, *, scratch: Path, results: Path | None, limits: Limits = LIMITS, now: datetime | None = None
) -> IntakeReport:
    """Take one path apart and say what speaks against it.

    Args:
        path: A folder or an archive.
        scratch: New and empty; archives are unpacked there.
        results: The results folder that it would join; None to compare it with nothing.
        limits: Bounds.
        now: The time by which nothing may be from the future; by default, this machine's.
    """
    from suite.intake.contents import contents_report
    from suite.intake.packs import is_pack, pack_report

    now = now or datetime.now(UTC)
    try:
        if is_pack(path):
            return _shown(pack_report(path, scratch=scratch, limits=limits, now=now))
        tree = _open(path, scratch, limits)
    except SuiteError as error:
        finding = finding_of(error, code="unusable" if isinstance(error, InvalidInput) else "refused")
        unusable = isinstance(error, Unusable)
        return IntakeReport(what="unknown", findings=(finding,), unusable=unusable)
    except OSError as error:
        finding = finding_of(Unusable("cannot-be-read", str(error.strerror), where=error.filename), code="unusable")
        return IntakeReport(what="unknown", findings=(finding,), unusable=True)
    return _shown(contents_report(tree, results=results, limits=limits, now=now))


def _shown(report: IntakeReport) -> IntakeReport:
    """The report with details that a terminal or a page may show; findings are so already."""
    return replace(report, checks=tuple(replace(check, detail=shown(check.detail)) for check in report.checks))


def _open(path: Path, scratch: Path, limits: Limits) -> Tree:
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise Unusable("nothing-here", f"cannot be looked at: {error.strerror}", where=str(path)) from error
    if stat.S_ISREG(mode):
        # Hidden, so that no one takes its name for that of what was sent.
        target = scratch / ".sent"
        target.mkdir()
        return gate_folder(unpack(path, target, limits), limits)
    return gate_folder(path, limits)
