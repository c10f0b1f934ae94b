"""What git says of a results folder. Commands only read, and run nothing that a checkout brings along."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from suite.bundle.find import find_bundles
from suite.bundle.schema import RECORD_NAME
from suite.errors import InvalidInput, MissingPrerequisite, SuiteError


def known_files(results: Path) -> frozenset[str] | None:
    """Files below a folder that git knows, relative to it; None where it lies in no checkout, or git is absent."""
    try:
        return frozenset(names(git(results, "ls-files", "-z", "--", ".")))
    except SuiteError:
        return None


def published_bundles(results: Path) -> list[Path]:
    """Folders of the bundles right below a results folder; in a checkout those alone that git knows.

    What else lies there a person measured, perhaps to submit it.
    """
    return known_bundles(results, known_files(results))


def known_bundles(results: Path, known: frozenset[str] | None) -> list[Path]:
    """Folders of the bundles right below a results folder whose record is one of these files; None for all."""
    return [
        folder
        for folder in find_bundles(results)
        if known is None or (folder / RECORD_NAME).relative_to(results).as_posix() in known
    ]


def unknown_files(results: Path) -> list[str]:
    """Files below a folder that git does not know, the ignored ones too, relative to it.

    Raises:
        InvalidInput: the folder lies in no checkout.
        MissingPrerequisite: git is not installed.
    """
    return names(git(results, "ls-files", "--others", "-z", "--", "."))


def git(folder: Path, *arguments: str, fails: bool = False) -> bytes:
    """Output of a git command that reads only.

    Args:
        folder: Where it runs.
        arguments: The command.
        fails: Nothing is given where git says no, instead of an error.

    Raises:
        InvalidInput: no such folder, or git says no.
        MissingPrerequisite: git is not installed.
    """
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise InvalidInput("no such folder", where=str(folder)) from error
        raise MissingPrerequisite("git is not installed", where="git", hint="install git") from error
    except NotADirectoryError as error:
        raise InvalidInput("not a folder", where=str(folder)) from error
    if done.returncode and not fails:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        raise InvalidInput(
            f"git {arguments[0]} fails: {ascii(told[-1])[1:-1] if told else 'without a word'}", where=str(folder)
        )
    return done.stdout if not done.returncode else b""


def names(output: bytes) -> list[str]:
    """The parts of an output of `-z`."""
    return [os.fsdecode(name) for name in output.split(b"\0") if name]
