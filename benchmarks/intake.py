"""Time and peak memory of intake for every hostile fixture, and for an honest bundle: the slowest and largest first.

    python benchmarks/intake.py

Each runs as `suite intake` does, in a process of its own; times are of this machine, and beside them stands how many
times the honest bundle's own they are.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from suite.signing import new_key  # noqa: E402
from tests.intake import sent_threats  # noqa: E402, F401 - adds to THREATS
from tests.intake.forger import Forger  # noqa: E402
from tests.intake.threats import THREATS, Scene  # noqa: E402

HONEST = "h200-smollm2-w8a8-fp8"
KNOWN = ("h200-smollm2-flash-attn-3", "h200-smollm2-chunk512", "h200-smollm2-w8a8-int8")
# A small process between: on Linux a child's peak is at least what its parent held when it was started.
HELPER = """
import json, resource, sys, time
from pathlib import Path
from suite.intake.intake import take_in
started = time.perf_counter()
report = take_in(Path(sys.argv[1]), results=Path(sys.argv[2]))
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([[f.code for f in report.findings], seconds, peak / 1024]))
"""


def measured(path: Path, results: Path) -> tuple[list[str], float, float]:
    """Codes, seconds and peak MiB of one path."""
    done = subprocess.run(
        [sys.executable, "-c", HELPER, str(path), str(results)], capture_output=True, check=True, text=True, cwd=ROOT
    )
    codes, seconds, peak = json.loads(done.stdout)
    return codes, seconds, peak


def main() -> None:
    """Print one row per fixture."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        keys = new_key(Path(temporary) / "a"), new_key(Path(temporary) / "b")
        honest = measured(next((ROOT / "results" / HONEST).iterdir()), ROOT / "results")
        assert not honest[0], honest
        for name, (code, make) in THREATS.items():
            root = Path(temporary) / name
            for known in KNOWN:
                shutil.copytree(ROOT / "results" / known, root / "results" / known)
            shutil.copytree(ROOT / "results" / HONEST, root / "sent" / HONEST)
            forger = Forger(next((root / "sent" / HONEST).iterdir()))
            path = make(Scene(root=root, forger=forger, results=root / "results", keys=keys))
            codes, seconds, peak = measured(path, root / "results")
            rows.append((name, code, "yes" if code in codes else f"NO: {codes}", seconds, seconds / honest[1], peak))
            shutil.rmtree(root)
    rows.sort(key=lambda row: -row[3])
    header = ("fixture", "code", "refused", "seconds", "times honest", "peak MiB")
    print(tabulate(rows, header, floatfmt=".2f"))
    print(f"\nhonest bundle: {honest[1]:.2f} s, {honest[2]:.0f} MiB")
    print(f"{len(rows)} fixtures; slowest {rows[0][3]:.2f} s; largest {max(row[5] for row in rows):.0f} MiB")


if __name__ == "__main__":
    main()
