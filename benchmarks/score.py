"""How fast row pairs are scored on a CPU: `python benchmarks/score.py [--pairs N] [--torch PYTHON] [--out FILE]`.

In one run, for V = 49,152 and 248,320, BF16 rows, pairs a second of:

- the NumPy kernel, one thread;
- the Numba kernel, one and two threads;
- plain torch, one thread, in the interpreter that `--torch` names (or $SUITE_VLLM_PYTHON): log_softmax of both sides in
  FP64 and both KLs, which is about a third of what a kernel returns; on blocks of 64 rows, as one writes it, in the
  first pass of a process (its memory is new: every page faults) and later ones (where the allocator keeps blocks of
  that size, its memory is warm), and on blocks of 4, which stay in cache;
- two bounds, one thread: reading both rows and taking one FP64 exponential of each entry, so two per pair of entries,
  once by NumPy's vectorised exp on rows in cache, once by the Numba kernel's own exponential in a loop that does
  nothing else. A kernel that normalises before it compares takes at least four.

Each figure is the best of several rounds that take turns. One thread is timed by its own processor time, which a
neighbour's load touches least; two threads by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import numba
import numpy as np

from suite.capture.rows import to_float32
from suite.score.numba_kernel import NumbaKernel
from suite.score.numpy_kernel import NumpyKernel

ROUNDS = 5
_TORCH = """
import sys, time
import numpy as np, torch
torch.set_num_threads(1)
rows = np.load(sys.argv[1])
first, second = (torch.from_numpy(rows[side].view(np.int16)).view(torch.bfloat16) for side in (0, 1))
for line in sys.stdin:
    started, size = time.process_time(), int(line)
    for i in range(0, len(first), size):
        a, b = (torch.log_softmax(side[i : i + size].double(), dim=1) for side in (first, second))
        p, q = a.exp(), b.exp()
        (p * (a - b)).sum(1), (q * (b - a)).sum(1)
    print(time.process_time() - started, flush=True)
"""


def bf16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def numba_bound():
    """Both rows read, one exponential per entry, by the kernel's own code."""
    from suite.score.numba_kernel import _loops

    loops = _loops()

    @numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
    def bound(first, second, shift):
        ours = theirs = 0.0
        for i in range(first.shape[0]):
            ours += loops_exp(loops_value(first[i], shift) - 40.0)
            theirs += loops_exp(loops_value(second[i], shift) - 40.0)
        return ours + theirs

    loops_exp, loops_value = loops.exp, loops._value
    return bound


def measure(vocab_size, pairs, torch_python, folder):
    random = np.random.default_rng(0)
    exact = random.normal(0, 4, (pairs, vocab_size)) + 12
    first, second = bf16(exact), bf16(exact + random.normal(0, 0.1, exact.shape))
    del exact
    targets = random.integers(0, vocab_size, pairs)
    shift = np.uint32(16)
    own_bound = numba_bound()

    def by_numpy():
        for row in range(pairs):
            for side in (first, second):
                np.exp(to_float32(side[row]).astype(np.float64)).sum()

    def by_numba():
        for row in range(pairs):
            own_bound(first[row], second[row], shift)

    work = {
        "numpy, 1 thread": lambda: NumpyKernel().score_block(first, second, targets),
        "numba, 1 thread": lambda: NumbaKernel(threads=1).score_block(first, second, targets),
        "numba, 2 threads": lambda: NumbaKernel(threads=2).score_block(first, second, targets),
        "bound: read and two numpy exponentials": by_numpy,
        "bound: read and two of its own exponentials": by_numba,
    }
    started = time.perf_counter()
    NumbaKernel(threads=1).score_block(first[:1], second[:1], targets[:1])
    compiled = time.perf_counter() - started
    child = None
    if torch_python:
        np.save(folder / "rows.npy", np.stack([first, second]))
        child = subprocess.Popen(
            [torch_python, "-c", _TORCH, str(folder / "rows.npy")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def by_torch(size):
            child.stdin.write(f"{size}\n")
            child.stdin.flush()
            return float(child.stdout.readline())

        work["torch expression, 1 thread, 64 rows"] = lambda: by_torch(64)
        work["torch expression, 1 thread, 4 rows"] = lambda: by_torch(4)
    best = dict.fromkeys(work, float("inf"))
    if child is not None:
        best["torch expression, 1 thread, 64 rows, first pass"] = by_torch(64)
    for _ in range(ROUNDS):
        for name, run in work.items():
            clock = time.perf_counter if "2 threads" in name else time.process_time
            started = clock()
            reported = run()
            took = reported if isinstance(reported, float) else clock() - started
            best[name] = min(best[name], took)
    if child is not None:
        child.stdin.close()
        child.wait()
        (folder / "rows.npy").unlink()
    return {name: pairs / seconds for name, seconds in best.items()}, compiled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=64, help="pairs a round")
    parser.add_argument("--torch", default=os.environ.get("SUITE_VLLM_PYTHON"), help="interpreter with torch")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    report = {"schema_version": 1, "numba": numba.__version__, "numpy": np.__version__, "results": {}}
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for vocab_size in (49_152, 248_320):
            rates, compiled = measure(vocab_size, arguments.pairs, arguments.torch, Path(folder))
            ours = rates["numba, 1 thread"]
            report["results"][vocab_size] = {"pairs_per_second": rates, "first_call_seconds": compiled}
            print(f"V = {vocab_size}, BF16, {arguments.pairs} pairs a round, first call {compiled:.1f} s")
            for name, rate in rates.items():
                print(f"  {name:46s} {rate:9,.0f} pairs/s   numba on 1 thread is {ours / rate:6.2f} times that")
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
