"""How long `make demo` takes on this machine: until the first stack's counts, and in all.

    .venv/bin/python benchmarks/demo.py                       # in a fresh state folder: the model is made too
    .venv/bin/python benchmarks/demo.py --keep FOLDER         # in a state folder that stays
    .ci/imitate-avx2 .venv/bin/python benchmarks/demo.py      # as a processor with AVX2 alone, imitated

Environments must be made already (`make setup vllm`). The figures are of one run: leave the machine alone meanwhile.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from suite.agent.processor import this_processor

ROOT = Path(__file__).parent.parent
COUNTS = re.compile(r"^(\S+): (\d+ of \d+ flips: .*)")


def manifests() -> list[str]:
    """What the Makefile's `demo` measures."""
    shown = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    line = next(line for line in shown.splitlines() if "suite run" in line)
    return [word for word in line.split() if word.endswith(".yaml")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="state folder to use and leave")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = arguments.keep or Path(scratch) / "home"
        command = [sys.executable, "-c", "from suite.cli.main import main; main()", "run", "--skip-refused"]
        command += [*manifests(), "--results", str(Path(scratch) / "results")]
        began = time.monotonic()
        child = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"SUITE_HOME": str(home)}, stderr=subprocess.PIPE, text=True
        )
        rows = {}
        for line in child.stderr:
            seconds = round(time.monotonic() - began, 1)
            print(f"{seconds:7.1f} {line}", end="", file=sys.stderr, flush=True)
            if found := COUNTS.match(line):
                rows[found[1]] = seconds
        code = child.wait()
        whole = round(time.monotonic() - began, 1)
    load = round(os.getloadavg()[1], 1)
    result = {"processor": str(this_processor()), "cores": len(os.sched_getaffinity(0)), "load": load}
    result |= {"exit_code": code, "first_row_seconds": min(rows.values(), default=None), "seconds": whole, "rows": rows}
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"\n{result['processor']}, {result['cores']} cores, load of the last five minutes {load}, exit code {code}")
    print(f"first counts after {result['first_row_seconds']} s, all after {whole} s")


if __name__ == "__main__":
    main()
