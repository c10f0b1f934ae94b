"""How long `suite verify` takes on one core: `python benchmarks/verify.py [--rounds 5] [--bar 5]`.

Two bundles: a synthetic one of 10,007 probes in 1,251 turns, with 500 flips, the SBOM of a published bundle and a
signature; and a published one of 7,177 probes. Each figure is the wall time of a process of its own on one core, as a
user has it, imports included; the best and the worst of several rounds, with what a process that only imports takes.
The bar is 5 seconds for the worst round of the first. Evidence is not part of it: that time goes with rows and heads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from suite.bundle.find import find_bundles  # noqa: E402
from suite.bundle.schema import seal  # noqa: E402
from suite.files import sha256_bytes  # noqa: E402
from suite.signing.folder import sign_folder  # noqa: E402
from suite.signing.keys import new_key  # noqa: E402
from tests.compare.world import CompareWorld  # noqa: E402

SUITE = ("-c", "from suite.cli.main import main; main()")
TURNS = 1251
FLIPS = tuple(range(7, 10_007, 20))


def synthetic(folder: Path, sbom: Path) -> Path:
    """The large bundle, sealed with an SBOM and signed."""
    bundle = CompareWorld(root=folder, turns=TURNS).bundle("many-probes", FLIPS, noise=0.2)
    data = sbom.read_bytes()
    (bundle / sbom.name).write_bytes(data)
    fields = json.loads((bundle / "bundle.json").read_text())
    del fields["record_sha256"]
    fields["files"][sbom.name] = sha256_bytes(data)
    (bundle / "bundle.json").write_bytes(seal(fields))
    sign_folder(bundle, new_key(folder / "key.pem"), kind="result")
    return bundle


def seconds(arguments: list[str], home: Path) -> float:
    """Wall time of one `python` on one core."""
    core = min(os.sched_getaffinity(0))
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "SUITE_HOME": str(home)},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bar", type=float, default=5.0, help="Seconds; above it the exit code is 1.")
    options = parser.parse_args()
    published = next(b for b in find_bundles(ROOT / "results") if b.parent.name == "h200-smollm2-kv-fp8-e4m3")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        large = synthetic(home / "made", published / "sbom.cdx.json")
        runs = {
            "10,007 probes": [*SUITE, "verify", str(large)],
            "7,177 probes": [*SUITE, "verify", str(published)],
            "imports alone": ["-c", "import suite.bundle.verify, suite.evidence.rows, suite.evidence.store"],
        }
        times = {name: [seconds(run, home) for _ in range(options.rounds)] for name, run in runs.items()}
    for name, taken in times.items():
        print(f"{name:>14}: {min(taken):.2f} s at best, {max(taken):.2f} s at worst of {len(taken)}")
    if max(times["10,007 probes"]) > options.bar:
        raise SystemExit(f"above the bar of {options.bar} s")


if __name__ == "__main__":
    main()
