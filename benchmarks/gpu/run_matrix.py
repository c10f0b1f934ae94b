"""Run a list of manifests on a GPU host in one call, resumable, and pack the bundles to bring back.

    python3 benchmarks/gpu/run_matrix.py --out DIR [--jobs N] [--minutes M] MANIFEST...

Stacks run in the order given, a few at a time: after each batch its bundles are packed into DIR, so that a call that
is cut off loses one batch at most, and the same command goes on where it stopped. Raw captures stay on the host.

The first engine of a fresh host compiles FlashInfer's sampler, and all others wait for it (190 s seen): begin with one
short stack while models are fetched. On a host of several cards CUDA_VISIBLE_DEVICES lets two such commands share one
state folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

PART_BYTES = 15 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("gpu-results"))
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4, help="manifests per batch")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no batch after this long")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    left = [path for path in options.manifests if not done(path, options.results)]
    while left and (time.monotonic() - started) / 60 < options.minutes:
        batch, left = left[: options.batch], left[options.batch :]
        command = [sys.executable, "-c", "from suite.cli.main import main; main()", "run", *map(str, batch)]
        command += ["--results", str(options.results), "--jobs", str(options.jobs), "--repeats", str(options.repeats)]
        print(f"[{time.monotonic() - started:5.0f} s] {' '.join(p.stem for p in batch)}", flush=True)
        result = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        print(result.stdout + result.stderr[-2500:], flush=True)
        pack(options.results, options.out)
    print(f"[{time.monotonic() - started:5.0f} s] not run: {[p.stem for p in left]}")


def done(manifest: Path, results: Path) -> bool:
    """Whether a bundle of this manifest is there already."""
    name = next(line.split(":", 1)[1].strip() for line in manifest.read_text().splitlines() if line.startswith("name:"))
    return any(results.glob(f"{name}/*/bundle.json"))


def pack(results: Path, out: Path) -> None:
    """One xz archive of all bundles, cut into parts that can be brought back."""
    for old in out.glob("bundles.*"):
        old.unlink()
    whole = out / "bundles.tar.xz"
    with tarfile.open(whole, "w:xz", preset=1) as archive:
        for folder in sorted(results.glob("*/*/")):
            archive.add(folder, arcname=str(folder.relative_to(results)))
    data = whole.read_bytes()
    whole.unlink()
    for number in range(0, len(data), PART_BYTES):
        (out / f"bundles.{number // PART_BYTES:02d}").write_bytes(data[number : number + PART_BYTES])
    (out / "bundles.json").write_text(json.dumps({"bytes": len(data)}))


if __name__ == "__main__":
    main()
