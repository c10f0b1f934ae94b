"""`take_in`: one path of a stranger looked at in a process of its own, whatever happens to that process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.bundle.report import Check
from suite.intake.child import OUT_OF_MEMORY
from suite.intake.limits import LIMITS, Limits
from suite.intake.refusal import shown
from suite.intake.report import Finding, IntakeReport

_REPORT_LIMIT_BYTES = 4 << 20
_TAIL_BYTES = 4 << 10
# No secret of this process reaches the one that reads a stranger's files.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "TZ")
# Each thread and each arena takes address space, which is bounded.
_FRUGAL = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "LC_ALL": "C.UTF-8",
}


def take_in(path: Path, *, results: Path | None, limits: Limits = LIMITS, now: datetime | None = None) -> IntakeReport:
    """Say whether what lies at `path` may be taken in, and if not, why.

    Args:
        path: A bundle, a submission or an attestation: its folder, or a .tar, .tar.gz, .tar.zst or .zip of it.
            Treated as hostile; nothing in it is run, and nothing is written beside it.
        results: The results folder that it would join, for duplicates and contradictions; None to compare with none.
        limits: Bounds on size, memory and time.
        now: The present, for times in the future; by default this machine's clock.

    Returns:
        A report; what is refused is not raised (see `IntakeReport.require_accepted`).
    """
    with tempfile.TemporaryDirectory(prefix="suite-intake-") as scratch:
        task = {
            "path": str(path.absolute()),
            "scratch": scratch,
            "results": None if results is None else str(results.absolute()),
            "limits": asdict(limits),
            "now": (now or datetime.now(UTC)).isoformat(),
        }
        return _run(task, limits)


def _run(task: dict[str, Any], limits: Limits) -> IntakeReport:
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _FRUGAL
    command = [sys.executable, "-P", "-m", "suite.intake.child"]
    # Files and no pipes: the process's limit on file sizes bounds them, and none can fill up.
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        given.write(json.dumps(task).encode())
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=output, stderr=errors, env=environment)
        try:
            code = process.wait(limits.wall_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return _ended("too-slow", f"not done after {limits.wall_seconds} seconds")
        output.seek(0)
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return _report(code, output.read(_REPORT_LIMIT_BYTES), errors.read(), limits)


def _report(code: int, output: bytes, errors: bytes, limits: Limits) -> IntakeReport:
    if code == OUT_OF_MEMORY:
        return _ended("too-much-memory", f"reading it takes more than {limits.memory_bytes:,} bytes of memory")
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return _ended("too-much-time", f"reading it takes more than {limits.cpu_seconds} seconds of a processor")
    if code != 0:
        last = (errors.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        return _ended("parser-ended", f"the process that read it ended with {code}; it said: {shown(last)}")
    value = json.loads(output)
    return IntakeReport(
        what=value["what"],
        bundle_id=value["bundle_id"],
        record_sha256=value["record_sha256"],
        key_ids=tuple(value["key_ids"]),
        tier=value["tier"],
        findings=tuple(Finding(**finding) for finding in value["findings"]),
        checks=tuple(Check(**check) for check in value["checks"]),
        unusable=value["unusable"],
    )


def _ended(code: str, message: str) -> IntakeReport:
    finding = Finding(code=code, where="", message=message, hint="no honest result needs so much; tell us if one does")
    return IntakeReport(what="unknown", findings=(finding,))
