"""How the agent's process begins and ends without waste: what a stack imports is large, and lives as long as it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import without garbage collection, and have no later collection go through what was imported.

    Importing vLLM makes objects by the million that stay; looking through them again and again took a fifth of a start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def leave(code: int) -> NoReturn:
    """End this process now: exit functions run and output is flushed, but nothing is taken apart piece by piece.

    The system frees memory at once; with vLLM loaded the interpreter needs seconds for it, as long as the engine needs
    to start. Everything worth keeping is on the disk by then.
    """
    gc.freeze()
    atexit._run_exitfuncs()  # the engine ends its ranks in one of them
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
