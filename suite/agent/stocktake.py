"""The `inventory` command: write what the stack is made of into the out folder, from inside the stack."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.agent.events import Events, write_whole
from suite.agent.inventory import collect_inventory, inventory_bytes


def run(request: dict[str, Any], events: Events) -> None:
    """Write `inventory.json` into `request["out"]`.

    With `own_environment`, as for a process, only this interpreter's Python packages are listed: those of its
    site-packages, and of every folder that a `.pth` file or `PYTHONPATH` lets it import from.
    """
    events.phase("inventory")
    own = None
    if request["own_environment"]:
        own = import_folders(sys.path)
    write_whole(Path(request["out"]) / "inventory.json", inventory_bytes(collect_inventory(site_packages=own)))


def import_folders(path: Sequence[str]) -> list[Path]:
    """The interpreter's site-packages, and the folders of `path` in which distributions are installed."""
    own = {Path(sysconfig.get_paths()[name]) for name in ("purelib", "platlib")}
    others = {Path(folder) for folder in path if folder and any(Path(folder).glob("*.dist-info/METADATA"))}
    return sorted(own | others)
