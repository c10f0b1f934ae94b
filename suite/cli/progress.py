"""Progress of work that runs side by side: bars on a terminal, plain lines elsewhere, silence on request."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

from suite.observer import Observer, SilentObserver


class Progress:
    """Gives one observer per line of work; use as a context manager.

    On a terminal each phase shows a bar with rate and time left. Elsewhere one line marks each phase's start and, if it
    took more than a second, its end.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty() and not quiet
        self._rich: Any = None
        self._lock = threading.Lock()
        self._lines: dict[str, Observer] = {}

    def __enter__(self) -> Self:
        if self._terminal:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._rich = Progress(
                TextColumn("{task.fields[label]:<26}"),
                TextColumn("{task.description:<18}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[rate]:>16}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rich is not None:
            self._rich.stop()

    def line(self, label: str) -> Observer:
        """The observer of one line of work; the same label gives the same one."""
        with self._lock:
            if label not in self._lines:
                self._lines[label] = self._new(label)
            return self._lines[label]

    def _new(self, label: str) -> Observer:
        if self._quiet:
            return SilentObserver()
        return _Bar(self._rich, label) if self._rich is not None else _Plain(label, self._lock)


class _Bar:
    def __init__(self, rich: Any, label: str) -> None:
        self._rich = rich
        self._label = label
        self._task: Any = None
        self._unit = ""

    def phase(self, name: str, *, total: int | None = None, unit: str = "") -> None:
        if self._task is not None:
            self._rich.remove_task(self._task)
        self._unit = unit
        self._task = self._rich.add_task(name, total=total, label=self._label, rate="") if name else None

    def advance(self, count: int) -> None:
        if self._task is None:
            return
        self._rich.advance(self._task, count)
        speed = next((t.speed for t in self._rich.tasks if t.id == self._task), None)
        if speed:
            self._rich.update(self._task, rate=f"{speed:,.0f} {self._unit}/s")

    def note(self, text: str) -> None:
        self._rich.console.print(f"{self._label}: {text}", markup=False, highlight=False)

    def warn(self, text: str) -> None:
        self._rich.console.print(f"warning: {text}", markup=False, highlight=False)


class _Plain:
    def __init__(self, label: str, lock: threading.Lock) -> None:
        self._label = label
        self._lock = lock
        self._phase: tuple[str, float] | None = None

    def phase(self, name: str, *, total: int | None = None, unit: str = "") -> None:
        self._end()
        self._phase = (name, time.monotonic()) if name else None
        if name:
            self._write(f"{name}: {total:,} {unit}" if total else name)

    def advance(self, count: int) -> None: ...

    def note(self, text: str) -> None:
        self._write(text)

    def warn(self, text: str) -> None:
        self._write(f"warning: {text}")

    def _end(self) -> None:
        if self._phase is not None and (seconds := time.monotonic() - self._phase[1]) > 1:
            self._write(f"{self._phase[0]} took {seconds:.1f} s")

    def _write(self, text: str) -> None:
        with self._lock:
            print(f"{self._label}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is the command line
