"""How the agent talks back: progress as JSON lines, and one outcome file at the end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from pathlib import Path
from typing import Any

DISK_FULL_EXIT = 28
"""Exit code of an agent that could not even write its outcome."""


class AgentFailure(Exception):
    """The run cannot give a valid result.

    Args:
        kind: A short name that the host maps to an error: `effective_mismatch`, `sanity`, `non_finite`, `disk_full`,
            `context`, `not_repeatable`, `altered`, `incomplete`, `codec`, `engine`.
        message: What failed.
        hint: What to do next.
    """

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, ours, the safetensors library's or one that another rank reported, says the disk is full."""
    text = str(error).lower()
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "no space left on device" in text


def failure_of(error: BaseException) -> AgentFailure:
    """The failure that an exception means."""
    if isinstance(error, AgentFailure):
        return error
    if is_disk_full(error):
        return AgentFailure(
            "disk_full", f"no space left on the disk: {error}", "free disk space and run again with --resume"
        )
    return AgentFailure("engine", f"{type(error).__name__}: {error}", "the end of engine.log says more")


class Events:
    """Append-only JSON lines in `events.jsonl`; each line is written at once, so a reader sees it."""

    def __init__(self, folder: Path) -> None:
        self._stream = (folder / "events.jsonl").open("ab", buffering=0)
        self._started: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def emit(self, event: str, **values: Any) -> None:
        """Write one event with the wall-clock time in seconds since the epoch.

        A line that cannot be written is lost: progress never stops a capture, least of all on one rank of several.
        """
        line = json.dumps({"event": event, "time": round(time.time(), 3), **values}) + "\n"
        with contextlib.suppress(OSError):
            self._stream.write(line.encode())

    def close(self) -> None:
        """No more events."""
        self._stream.close()

    def phase(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Begin a phase; its duration is known when `done` is called."""
        self._started[name] = time.perf_counter()
        self.emit("phase", name=name, total=total, unit=unit)

    def done(self, name: str) -> float:
        """End a phase and return its duration in seconds."""
        seconds = time.perf_counter() - self._started[name]
        self.seconds[name] = seconds
        self.emit("done", name=name, seconds=round(seconds, 3))
        return seconds


def write_json(path: Path, value: Any) -> None:
    """Write canonical JSON, whole or not at all.

    Raises:
        OSError: the disk is full, for instance.
        ValueError: `value` holds NaN or an infinity.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file to a temporary name, then rename; nothing is left behind where that fails.

    Raises:
        OSError: the disk is full, for instance.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_outcome(folder: Path, failure: AgentFailure | None, **values: Any) -> int:
    """Leave `outcome.json` and return the process's exit code: 0, or 1 after a failure.

    On a disk so full that even this file does not fit, the exit code alone says so.
    """
    if failure is None:
        outcome = {"status": "done", **values}
    else:
        outcome = {"status": "failed", "kind": failure.kind, "message": failure.message, "hint": failure.hint}
    try:
        write_json(folder / "outcome.json", outcome)
    except OSError:
        return DISK_FULL_EXIT if failure is not None and failure.kind == "disk_full" else 1
    return 0 if failure is None else 1
