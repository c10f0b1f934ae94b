"""A folder that appears whole or not at all, and never over another one."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.errors import InvalidInput, MissingPrerequisite


@contextmanager
def whole_folder(final: Path, *, what: str, hint: str = "nothing is written over") -> Iterator[Path]:
    """A folder of the name of `final` to write into, hidden until the block ends without an error.

    What an earlier killed process left of that kind is removed. Folders above it that had to be made stay only with it.

    Args:
        final: Must not exist.
        what: What `final` is, for messages: `a bundle of this lock and second`.
        hint: What to do where it exists.

    Raises:
        InvalidInput: `final` exists.
        MissingPrerequisite: the disk is full; nothing is left behind.
    """
    with made_folder(final.parent):
        _remove_abandoned(final.parent)
        if os.path.lexists(final):
            raise InvalidInput(f"{what} exists already", where=str(final), hint=hint)
        with _renamed_at_the_end(final, what=what, hint=hint) as partial:
            yield partial


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """A folder that is there for the block; where the block fails, those that had to be made and are empty go again."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in made:
            try:
                path.rmdir()
            except OSError:  # somebody else's file lies there by now
                break
        raise


@contextmanager
def _renamed_at_the_end(final: Path, *, what: str, hint: str) -> Iterator[Path]:
    hidden = final.parent / f".{final.name}.{os.getpid()}.partial"
    partial = hidden / final.name
    try:
        partial.mkdir(parents=True)
        yield partial
        for path in sorted(partial.rglob("*"), reverse=True):
            _sync(path)
        _sync(partial)
        partial.rename(final)
        _sync(final.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingPrerequisite(
                f"no space left for {what}", where=str(final), hint="free disk space, then run again"
            ) from error
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise InvalidInput(f"{what} exists already", where=str(final), hint=hint) from error
        raise
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _sync(path: Path) -> None:
    if path.is_symlink():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(".*.partial"):
        process = path.name.split(".")[-2]
        if process.isdecimal() and not _is_alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
