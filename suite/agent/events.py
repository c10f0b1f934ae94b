"""How the agent talks back: progress as JSON lines, and one outcome file at the end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class AgentFailure(Exception):
    """The run cannot give a valid result.

    Args:
        kind: A short name that the host maps to an error: `effective_mismatch`, `sanity`, `non_finite`, `disk_full`,
            `context`, `weights`, `not_repeatable`, `codec`, `engine`.
        message: What failed.
        hint: What to do next.
    """

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


class Events:
    """Append-only JSON lines in `events.jsonl`; each line is flushed, so a reader sees it at once."""

    def __init__(self, folder: Path) -> None:
        self._stream = (folder / "events.jsonl").open("a", buffering=1)
        self._started: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def emit(self, event: str, **values: Any) -> None:
        """Write one event with the wall-clock time in seconds since the epoch."""
        self._stream.write(json.dumps({"event": event, "time": round(time.time(), 3), **values}) + "\n")

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
    """Write canonical JSON to a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
