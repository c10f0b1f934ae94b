"""Check and time the Triton scoring kernel on a CUDA GPU: `PYTHONPATH=. python benchmarks/gpu/score_kernel.py`.

Needs torch and triton alone, and less than a minute. Prints a table and leaves `score_kernel.json` in $OUT (or here).

1. Random, tie-rich, near-equal, extreme and non-finite rows at several vocabularies and dtypes, against plain torch in
   FP64: the largest relative and absolute difference of each column.
2. Pairs a second at V = 248,320 in BF16 beside three things measured in the same run on the same rows: the plain torch
   expression (two log_softmax in FP64 and both KLs), a copy of the rows (its bandwidth says how fast rows can be read),
   and FP64 exponentials (two per pair of entries, by the same code as the kernel's).
3. The same for other block sizes and warps.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

from suite.agent.scoring import torch_kernel, triton_kernel
from suite.agent.scoring.columns import columns_of
from suite.agent.scoring.score import score_pairs

VOCABULARY = 248_320
PAIRS = int(os.environ.get("PAIRS", "2112"))
DEVICE = os.environ.get("DEVICE", "cuda")
CONFIGS = ((256, 2), (256, 4), (512, 2), (512, 4), (512, 8), (1024, 4), (1024, 8), (2048, 8), (2048, 16))


def rows_of(kind, count, vocab_size, dtypes, generator):
    def normal():
        return torch.randn((count, vocab_size), generator=generator, device=DEVICE, dtype=torch.float32)

    first = normal() * 4 + 12
    second = first + normal() * 0.1
    if kind == "ties":
        first, second = (first / 2).round() * 2, (second / 2).round() * 2
    elif kind == "near":
        second = first.clone()
        second[:, 0] += 0.5
        second[0] = first[0]
    elif kind == "extreme":
        first, second = normal() * 4e3, normal() * 4e3
    pair = [first.to(dtypes[0]), second.to(dtypes[1])]
    if kind == "non-finite":
        for row, value in enumerate((float("nan"), float("inf"), float("-inf"))):
            pair[row % 2][row, vocab_size // 2] = value
    return pair


def check(report) -> bool:
    generator = torch.Generator(DEVICE).manual_seed(1)
    bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32
    worst, bad = {}, []
    for vocab_size in (2, 1001, 49_152, 50_257, VOCABULARY):
        for kind in ("random", "ties", "near", "extreme", "non-finite"):
            for dtypes in ((bf16, bf16), (fp32, bf16), (fp16, fp16)):
                pair = rows_of(kind, 6, vocab_size, dtypes, generator)
                targets = torch.randint(0, vocab_size, (6,), generator=generator, device=DEVICE)
                got = score_pairs(*pair, targets)
                want = columns_of(torch_kernel.measure(*pair), *pair, targets)
                for name, expected in want.items():
                    case = f"{name} at V = {vocab_size}, {kind}, {dtypes}"
                    found = got[name]
                    if found.dtype != expected.dtype:
                        bad.append(f"{case}: dtype")
                    elif expected.dtype != torch.float64:
                        if not torch.equal(found, expected):
                            bad.append(f"{case}: {found.tolist()} for {expected.tolist()}")
                    elif not torch.equal(found.isnan(), expected.isnan()):
                        bad.append(f"{case}: NaN elsewhere")
                    else:
                        there = ~expected.isnan()
                        absolute = (found - expected)[there].abs()
                        relative = absolute / expected[there].abs().clamp(min=1e-300)
                        if ((absolute > 1e-12) & (relative > 1e-9)).any():
                            bad.append(f"{case}: {found.tolist()} for {expected.tolist()}")
                        if len(absolute):
                            entry = worst.setdefault(name, [0.0, 0.0])
                            entry[0] = max(entry[0], float(absolute.max()))
                            # Relative where the value is not next to nothing.
                            large = relative[expected[there].abs() > 1e-3]
                            entry[1] = max(entry[1], float(large.max()) if len(large) else 0.0)
    pair = rows_of("random", 64, VOCABULARY, (bf16, bf16), generator)
    twice = [triton_kernel.measure(*pair) for _ in range(2)]
    repeats = torch.equal(twice[0].floats, twice[1].floats)
    print("largest difference from plain torch FP64: column, absolute, relative (values above 1e-3)")
    for name, (absolute, relative) in worst.items():
        print(f"  {name:24s} {absolute:9.2e} {relative:9.2e}")
    print("same bits twice:", repeats)
    for line in bad[:10]:
        print("DIFFERS", line[:400])
    report["check"] = {"worst": worst, "differs": bad[:50], "repeats": repeats}
    return not bad and repeats


def seconds(work, repeats=3):
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def expression(first, second):
    log_p = torch.log_softmax(first.double(), dim=1)
    log_q = torch.log_softmax(second.double(), dim=1)
    p, q = log_p.exp(), log_q.exp()
    return (p * (log_p - log_q)).sum(1), (q * (log_q - log_p)).sum(1)


@triton.jit
def _sum_of_exponentials(rows, stride, out, vocab_size, BLOCK: tl.constexpr):  # noqa: N803
    row = rows + tl.program_id(0).to(tl.int64) * stride
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, vocab_size, BLOCK):
        at = start + lane
        z = tl.load(row + at, mask=at < vocab_size, other=float("-inf")).to(tl.float64)
        total += triton_kernel._exp(z - 40.0)
    tl.store(out + tl.program_id(0), tl.sum(total, 0))


def bench(report) -> None:
    generator = torch.Generator(DEVICE).manual_seed(2)
    blocks = [rows_of("random", 264, VOCABULARY, (torch.bfloat16,) * 2, generator) for _ in range(PAIRS // 264)]
    first, second = (torch.cat([block[side] for block in blocks]) for side in (0, 1))
    del blocks
    pairs = len(first)
    targets = torch.randint(0, VOCABULARY, (pairs,), generator=generator, device=DEVICE)

    def in_torch():
        for i in range(0, 264, 44):
            expression(first[i : i + 44], second[i : i + 44])

    copy = torch.empty_like(first)

    def copying():
        copy.copy_(first)
        copy.copy_(second)

    out = torch.empty(pairs, dtype=torch.float64, device=DEVICE)

    def exponentials():
        for side in (first, second):
            _sum_of_exponentials[(pairs,)](side, side.stride(0), out, VOCABULARY, BLOCK=512, num_warps=4)

    rates = {
        "torch expression": 264 / seconds(in_torch, 1),
        # A copy reads and writes: reading alone takes half of its traffic.
        "reading at the copy's bandwidth": 2 * pairs / seconds(copying),
        "two FP64 exponentials per pair of entries": pairs / seconds(exponentials),
        "score_pairs": pairs / seconds(lambda: score_pairs(first, second, targets)),
    }
    for block, warps in CONFIGS:
        try:
            took = seconds(lambda b=block, w=warps: triton_kernel.measure(first, second, block=b, num_warps=w), 2)
        except Exception as error:  # noqa: BLE001 - a shape that does not fit is a result
            print("block", block, "warps", warps, type(error).__name__, str(error)[:200])
            continue
        rates[f"kernel, block {block}, {warps} warps"] = pairs / took
    print(f"\nV = {VOCABULARY}, BF16, {pairs} pairs; pairs a second, and times the torch expression")
    for name, rate in rates.items():
        print(f"  {name:44s} {rate:12,.0f} {rate / rates['torch expression']:8.2f}")
    report["pairs_per_second"] = rates


def main() -> int:
    started = time.perf_counter()
    report = {
        "schema_version": 1,
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE,
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    good = check(report)
    if DEVICE == "cuda":
        bench(report)
    report["seconds"] = time.perf_counter() - started
    Path(os.environ.get("OUT", "."), "score_kernel.json").write_text(json.dumps(report, indent=2, sort_keys=True))
    print(f"{'agrees' if good else 'DOES NOT AGREE'}; {report['seconds']:.1f} s")
    return 0 if good else 5


if __name__ == "__main__":
    raise SystemExit(main())
