"""`python -m suite.agent.inventory`: write the inventory of the machine or container it runs in to standard output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from suite.agent.inventory import collect_inventory, inventory_bytes


def main() -> None:
    """Read the arguments, collect, write."""
    parser = argparse.ArgumentParser(prog="python -m suite.agent.inventory", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("/"))
    parser.add_argument("--site-packages", type=Path, action="append")
    parser.add_argument("--no-unowned", action="store_true")
    options = parser.parse_args()
    inventory = collect_inventory(options.root, options.site_packages, not options.no_unowned)
    sys.stdout.buffer.write(inventory_bytes(inventory))


if __name__ == "__main__":
    main()
