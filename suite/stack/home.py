"""Where the suite keeps models and captures between runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


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
