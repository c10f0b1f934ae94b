"""The processes of a build, started once for both of its steps: measuring bundles, and making files."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from suite.site.facts import Measured
from suite.site.interface import Copied, Output
from suite.site.making import make_file
from suite.site.measure import measure
from suite.site.rendering import Renderer
from suite.site.scan import Found

_SHARE = 150
"""Files that one process makes at a time."""
_FEW_FILES, _FEW_BUNDLES = 300, 60
"""So few are made here: starting other processes takes longer."""

# Processes are started fresh, not forked: numerical libraries hold threads.
_FRESH = multiprocessing.get_context("spawn")
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class Workers:
    """Does the work of a build here or, where there is much of it, in other processes; the results are the same."""

    def __init__(self, *, number: int, out: Path, templates: Path) -> None:
        """Args:
        number: Processes.
        out: The site's folder.
        templates: Folder of compiled templates.
        """
        self._number = number
        self._out = out
        self._templates = templates
        self._pool: ProcessPoolExecutor | None = None
        self._open = ExitStack()

    def __enter__(self) -> Workers:
        """Nothing is started before it is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes."""
        self._open.close()

    def measured(self, groups: Sequence[Sequence[Found]]) -> Iterable[Measured]:
        """Facts of each group, in order; other processes begin at once."""
        if self._number < 2 or sum(map(len, groups)) < _FEW_BUNDLES:
            return map(measure, groups)
        return self._processes().map(measure, groups)

    def made(self, outputs: Sequence[Output | Copied]) -> Iterator[tuple[str, int | str]]:
        """Make files; of each its path, and its size in bytes or why it was not made."""
        if self._number < 2 or len(outputs) < _FEW_FILES:
            renderer = Renderer(compiled=self._templates)
            for output in outputs:
                yield output.path, make_file(output, self._out, renderer)
            return
        # Files that follow each other are often made of the same bundle, which one process then reads once.
        shares = [outputs[start : start + _SHARE] for start in range(0, len(outputs), _SHARE)]
        for result in self._processes().map(_make, shares):
            yield from result

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._open.enter_context(_one_thread_each())
            pool = ProcessPoolExecutor(self._number, _FRESH, initializer=_start, initargs=(self._out, self._templates))
            self._pool = self._open.enter_context(pool)
        return self._pool


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started in here do linear algebra in one thread each: more of them would only wait for one another."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_worker: tuple[Path, Renderer] | None = None


def _start(out: Path, templates: Path) -> None:
    global _worker
    _worker = (out, Renderer(compiled=templates))


def _make(outputs: Sequence[Output | Copied]) -> list[tuple[str, int | str]]:
    assert _worker is not None
    return [(output.path, make_file(output, *_worker)) for output in outputs]


def workers_here() -> int:
    """How many processes are worth starting."""
    return max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
