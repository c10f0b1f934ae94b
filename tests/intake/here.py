"""Intake without its process, for tests in which that is not the point: starting one takes most of its time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from suite.intake.examine import examine
from suite.intake.report import IntakeReport


def look(path: Path, *, results: Path | None, **options: Any) -> IntakeReport:
    """What `take_in` does with a path, without bounds on the memory and time of a process."""
    with tempfile.TemporaryDirectory(prefix="scratch-") as scratch:
        return examine(path, scratch=Path(scratch), results=results, **options)
