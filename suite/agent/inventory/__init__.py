"""What a stack is made of, read where the stack lies; standard library only, so that a stock image can run it.

The result is plain data (`inventory.json`); `suite.sbom` turns it into CycloneDX and SPDX elsewhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suite.agent.inventory import dpkg, environment, python, unowned
from suite.agent.inventory.tree import Findings, Tree

__all__ = ["SCHEMA_VERSION", "collect_inventory", "inventory_bytes"]

SCHEMA_VERSION = 1


def collect_inventory(
    root: Path = Path("/"), site_packages: list[Path] | None = None, include_unowned: bool = True
) -> dict[str, Any]:
    """List the Debian packages, Python distributions and unowned ELF files under `root`.

    Args:
        root: The folder to read: `/`, an unpacked image, a bind mount. Symbolic links are followed inside it only.
        site_packages: The environment of one interpreter (a process runtime): only these folders are read for Python
            distributions. None: every such folder in the usual places under `root` (an image).
        include_unowned: Also hash ELF shared objects and executables that neither dpkg nor a RECORD owns.

    Returns:
        JSON-ready data with the keys schema_version, operating_system, dpkg, python, files and findings. It depends
        on the content of the folders alone: the order is fixed, nothing is timed, and places are relative to `root`,
        or to `{prefix}` for an environment outside the system's folders. What could not be read is in `findings`,
        never raised.
    """
    findings = Findings()
    tree = Tree(root, findings)
    packages, owners = dpkg.collect(tree)
    environments = environment.given(tree, site_packages) if site_packages is not None else environment.find(tree)
    distributions, recorded = python.collect(environments, owners, system=tree)
    files = unowned.collect(tree, environments, owners, recorded) if include_unowned else []
    return {
        "schema_version": SCHEMA_VERSION,
        "operating_system": dpkg.operating_system(tree),
        "dpkg": packages,
        "python": distributions,
        "files": files,
        "findings": findings.as_list(),
    }


def inventory_bytes(inventory: dict[str, Any]) -> bytes:
    """The one form in which an inventory is written: UTF-8 JSON, sorted keys, one entry level of indentation."""
    return json.dumps(inventory, sort_keys=True, indent=1, ensure_ascii=True).encode("ascii") + b"\n"
