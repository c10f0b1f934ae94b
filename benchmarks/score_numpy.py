"""How many row pairs a second the NumPy kernel scores: `python benchmarks/score_numpy.py [PROBES] [VOCABULARY]`.

Beside it, in the same run: reading the rows plus two exponentials per entry, which no implementation can undercut.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from suite.capture.rows import to_float32
from suite.score.numpy_kernel import NumpyKernel

BLOCK = 64


def bf16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def main() -> None:
    probes = int(sys.argv[1]) if len(sys.argv) > 1 else 2_500
    vocab_size = int(sys.argv[2]) if len(sys.argv) > 2 else 49_152
    random = np.random.default_rng(0)
    exact = random.normal(0, 4, (BLOCK, vocab_size)) + 12
    reference, candidate = bf16(exact), bf16(exact + random.normal(0, 0.1, exact.shape))
    targets = random.integers(0, vocab_size, BLOCK)
    kernel = NumpyKernel()
    kernel.score_block(reference[:2], candidate[:2], targets[:2])
    blocks = max(probes // BLOCK, 1)
    started = time.perf_counter()
    for _ in range(blocks):
        kernel.score_block(reference, candidate, targets)
    scored = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(blocks):
        for row in range(BLOCK):
            for side in (reference, candidate):
                np.exp(to_float32(side[row]).astype(np.float64)).sum()
    bound = time.perf_counter() - started
    rows = blocks * BLOCK
    print(f"{rows} pairs, V = {vocab_size}, BF16, one core: {scored:.2f} s, {rows / scored:.0f} pairs/s")
    print(f"reading and two exponentials an entry: {bound:.2f} s; ratio {scored / bound:.2f}")
    print(f"peak resident memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
