"""The `inventory` command: write what the stack is made of into the out folder, from inside the stack."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from suite.agent.events import Events, write_whole
from suite.agent.inventory import collect_inventory, inventory_bytes


def run(request: dict[str, Any], events: Events) -> None:
    """Write `inventory.json` into `request["out"]`.

    With `own_environment`, as for a process, only this interpreter's Python packages are listed.
    """
    events.phase("inventory")
    own = None
    if request["own_environment"]:
        own = sorted({Path(sysconfig.get_paths()[name]) for name in ("purelib", "platlib")})
    write_whole(Path(request["out"]) / "inventory.json", inventory_bytes(collect_inventory(site_packages=own)))
