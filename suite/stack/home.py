"""Where the suite keeps models and captures between runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from suite.errors import InvalidInput, MissingPrerequisite


def suite_home(environment: Mapping[str, str] | None = None) -> Path:
    """The state folder: `$SUITE_HOME`, else `suite` in `$XDG_CACHE_HOME`, else `~/.cache/suite`.

    The folder need not exist. It holds `models/` (fetched and derived checkpoints) and `captures/`.

    Args:
        environment: Variables to look in; the process's own by default.
    """
    variables = os.environ if environment is None else environment
    if chosen := variables.get("SUITE_HOME"):
        return Path(chosen).expanduser().absolute()
    cache = variables.get("XDG_CACHE_HOME")
    # The XDG specification has relative values ignored.
    root = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return root / "suite"


def require_writable(home: Path) -> None:
    """Make the state folder and see that files can be written there.

    Raises:
        InvalidInput: its path has a colon, which no search path can hold.
        MissingPrerequisite: it cannot be made or written.
    """
    if os.pathsep in str(home):
        raise InvalidInput(f"the path holds {os.pathsep!r}", where=str(home), hint="set SUITE_HOME to another folder")
    _try_to_write(home, "state", "set SUITE_HOME to a folder that is")


def require_writable_results(results: Path) -> None:
    """Make the folder of results and see that files can be written there: sooner than after hours of captures.

    Raises:
        MissingPrerequisite: it cannot be made or written.
    """
    _try_to_write(results, "results", "name another with --results")


def _try_to_write(folder: Path, kind: str, otherwise: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise MissingPrerequisite(
            f"the {kind} folder cannot be written: {error.strerror}",
            where=str(folder),
            hint=f"make it writable, or {otherwise}",
        ) from error
