"""Folders that are complete or absent, and made by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.errors import MissingPrerequisite
from suite.observer import Observer

_POLL_SECONDS = 0.2


@contextmanager
def only_process(lock: Path, observer: Observer, *, cancelled: threading.Event | None = None) -> Iterator[None]:
    """Hold an advisory lock while the block runs. The kernel frees it when the process dies, however it dies.

    Raises:
        KeyboardInterrupt: `cancelled` was set while another process held the lock.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    cancelled = cancelled or threading.Event()
    told = False
    with lock.open("w") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    name = lock.name.removesuffix(".lock").removeprefix(".")
                    observer.note(f"waiting for another process that makes {name}")
                    told = True
                if cancelled.wait(_POLL_SECONDS):
                    raise KeyboardInterrupt from None
        yield


def make_folder(target: Path, fill: Callable[[Path], None], observer: Observer) -> Path:
    """Return `target`, made by `fill(temporary folder)` and a rename unless it exists.

    Two processes that ask for the same folder make it once. What a killed process left behind is removed.

    Raises:
        MissingPrerequisite: the disk is full; nothing is left behind.
    """
    if target.is_dir():
        return target
    temporary = target.with_name(f".{target.name}.tmp")
    with only_process(target.with_name(f".{target.name}.lock"), observer), _disk_full_is_told(target):
        if target.is_dir():
            return target
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            fill(temporary)
            _publish(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _publish(temporary: Path, target: Path) -> None:
    """Make everything readable to other users (containers run as one), flush it, and give it its name."""
    for path in (temporary, *temporary.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    temporary.rename(target)


@contextmanager
def _disk_full_is_told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(target.parent) from error
        raise


def disk_full(folder: Path, *, needed_bytes: int | None = None) -> MissingPrerequisite:
    """The error for a disk that is full, or would be."""
    needed = f": {needed_bytes:,} bytes are needed" if needed_bytes is not None else ""
    return MissingPrerequisite(
        f"no space left on the disk{needed}",
        where=str(folder),
        hint="free disk space or set SUITE_HOME, then run again",
    )
