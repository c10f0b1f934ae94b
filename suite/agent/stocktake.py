"""The `inventory` command: write what the stack is made of into the out folder, from inside the stack."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

from suite.agent.events import Events, write_json
from suite.agent.inventory import collect_inventory, inventory_bytes


def main(request_file: Path) -> int:
    """Read `{out, own_environment}`; with `own_environment` only this interpreter's packages are listed (a process)."""
    request = json.loads(request_file.read_text())
    out = Path(request["out"])
    Events(out).phase("inventory")
    own = None
    if request["own_environment"]:
        own = sorted({Path(sysconfig.get_paths()[name]) for name in ("purelib", "platlib")})
    temporary = out / ".inventory.json.tmp"
    temporary.write_bytes(inventory_bytes(collect_inventory(site_packages=own)))
    temporary.replace(out / "inventory.json")
    write_json(out / "outcome.json", {"status": "done"})
    return 0
