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
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise MissingPrerequisite(
            f"the state folder cannot be written: {error.strerror}",
            where=str(home),
            hint="make it writable, or set SUITE_HOME to a folder that is",
        ) from error
