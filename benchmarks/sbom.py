"""Time from a root folder of 482 Debian packages and 252 Python distributions to a validated CycloneDX file.

Run with `python benchmarks/sbom.py [PACKAGES DISTRIBUTIONS]`: one line of JSON per phase. The target is under 3 s
without reading, imports included.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

FILES_EACH = 100


def build(root: Path, num_packages: int, num_distributions: int) -> None:
    """A root with file lists and RECORDs of a usual size."""
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    blocks = []
    for number in range(num_packages):
        name = f"package-{number}"
        blocks.append(
            f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.{number}-2\n"
            + f"Description: text\n{' more text' * 6}\n" * 10
        )
        paths = [f"usr/lib/{name}/file-{item}" for item in range(FILES_EACH)]
        (info / f"{name}.list").write_text("".join(f"/{path}\n" for path in paths))
        (info / f"{name}.md5sums").write_text("".join(f"{number:032x}  {path}\n" for path in paths))
    (root / "var/lib/dpkg/status").write_text("\n".join(blocks))
    site = root / "usr/local/lib/python3.12/dist-packages"
    for number in range(num_distributions):
        folder = site / f"project_{number}-2.{number}.dist-info"
        folder.mkdir(parents=True)
        header = f"Metadata-Version: 2.4\nName: project-{number}\nVersion: 2.{number}\nLicense-Expression: MIT\n\n"
        (folder / "METADATA").write_text(header + "words\n" * 500)
        rows = [f"project_{number}/module_{item}.py,sha256={item:043x},100\n" for item in range(FILES_EACH)]
        (folder / "RECORD").write_text("".join(rows))


def main() -> None:
    """Build, then time each phase once, imports included."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(root, *(int(text) for text in sys.argv[1:3] or ("482", "252")))
        started = time.perf_counter()

        def lap(phase: str, **more: object) -> None:
            nonlocal started
            seconds = time.perf_counter() - started
            sys.stdout.write(json.dumps({"phase": phase, "seconds": round(seconds, 3), **more}) + "\n")
            started = time.perf_counter()

        from suite.agent.inventory import collect_inventory, inventory_bytes

        raw = inventory_bytes(collect_inventory(root))
        lap("read", size_bytes=len(raw))

        from suite.sbom.components import components_of, count_by_kind
        from suite.sbom.cyclonedx import check_cyclonedx, render_cyclonedx
        from suite.sbom.schema import load_inventory
        from suite.sbom.spdx import render_spdx

        inventory = load_inventory(raw, where="inventory.json")
        counts = count_by_kind(components_of(inventory))
        lap("load", **counts)
        data = render_cyclonedx(inventory)
        lap("cyclonedx, validated, first time", size_bytes=len(data))
        render_cyclonedx(inventory)
        lap("cyclonedx, validated, again")
        check_cyclonedx(data, where="again")
        lap("of which strict validation")
        lap("spdx", size_bytes=len(render_spdx(inventory)))


if __name__ == "__main__":
    main()
