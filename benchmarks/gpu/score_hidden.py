"""Score 100,000 positions at 27B shape from stored hidden states, as a run does after the engine has stopped.

    PYTHONPATH=. python benchmarks/gpu/score_hidden.py [ROWS]

Needs torch and triton alone. The hidden states and the head are random numbers of the real shapes (5,120 by 248,320,
BF16); the candidate's are the reference's with two per cent of noise. Prints how long the agent's own `score` command
takes, and compares a sample of its columns with plain torch in FP64. Leaves `score_hidden.json` in $OUT (or here).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from suite.agent.events import Events
from suite.agent.head import Head, save_shard
from suite.agent.rows import number_facts
from suite.agent.scoring import job, torch_kernel
from suite.agent.scoring.columns import columns_of
from suite.agent.tensors import write_tensors

DEVICE = os.environ.get("DEVICE", "cuda")
HIDDEN, VOCABULARY = (int(n) for n in os.environ.get("SHAPE", "5120,248320").split(","))
CHUNK, PER_GEMM = 4_096, 256


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    device = DEVICE
    torch.manual_seed(0)
    work = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    weight = (torch.randn((VOCABULARY, HIDDEN), device=device) * 0.03).to(torch.bfloat16)
    head = Head(
        weights=(weight,), biases=(None,), vocab_size=VOCABULARY, scale=1.0, soft_cap=None, dtype=torch.bfloat16
    )
    parts = {"weight": weight, "bias": None, "vocab_size": VOCABULARY, "scale": 1.0, "soft_cap": None}
    shard = save_shard(work / "heads", 0, parts | {"dtype": "bfloat16"})
    targets = torch.randint(0, VOCABULARY, (rows,))
    sides: dict[str, list[str]] = {"reference": [], "candidate": []}
    started = time.perf_counter()
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        ours = torch.randn((count, HIDDEN), device=device).to(torch.bfloat16)
        theirs = (ours + 0.02 * torch.randn_like(ours)).to(torch.bfloat16)
        for name, hidden in (("reference", ours), ("candidate", theirs)):
            facts = [number_facts(head.logits(hidden[k : k + PER_GEMM], PER_GEMM)) for k in range(0, count, PER_GEMM)]
            path = work / f"{name}-{first:06d}.safetensors"
            tensors = {key: torch.cat([part[key] for part in facts]).cpu() for key in facts[0]} | {
                "rows": hidden.cpu(),
                "positions": torch.arange(first, first + count),
                "target_ids": targets[first : first + count],
                "row_sha256": torch.zeros((count, 32), dtype=torch.uint8),
            }
            write_tensors(path, tensors)
            sides[name].append(str(path))
    made = time.perf_counter() - started
    del weight, head
    if device == "cuda":
        torch.cuda.empty_cache()
    out = work / "out"
    out.mkdir()
    request = {
        "out": str(out),
        "device": device,
        "threads": None,
        "num_rows": rows,
        **{
            name: {"chunks": files, "heads": str(work / "heads"), "shards": [shard], "rows_per_gemm": PER_GEMM}
            for name, files in sides.items()
        },
    }
    job.run(request, Events(out))
    report = json.loads((out / "score.json").read_text()) | {"made_seconds": round(made, 1)}
    report["pairs_per_second"] = round(rows / report["score_seconds"])
    columns = np.load(out / "columns.npz")
    report["rows_as_captured"] = [int(columns[f"{name}_captured"].sum()) for name in sides]
    report["mean_kl"] = float(columns["kl_ref_cand"].mean())
    report["flips"] = int(columns["flip"].sum())
    report["worst_difference"] = compare(work, sides, shard, columns)
    shutil.rmtree(work)
    print(json.dumps(report, indent=1))
    (Path(os.environ.get("OUT", ".")) / "score_hidden.json").write_text(json.dumps(report, indent=1))


def compare(work: Path, sides: dict[str, list[str]], shard: str, columns: np.lib.npyio.NpzFile) -> dict[str, float]:
    """Largest relative difference of each float column from plain torch FP64, over the first 64 rows."""
    from safetensors.torch import load_file

    from suite.agent.head import load_head

    head = load_head(work / "heads", [shard], DEVICE)
    rows, targets = [], None
    for files in sides.values():
        chunk = load_file(files[0])
        rows.append(head.logits(chunk["rows"][:PER_GEMM].to(DEVICE), PER_GEMM)[:64])
        targets = chunk["target_ids"][:64].to(DEVICE)
    raw = torch_kernel.measure(*rows)
    plain = columns_of(raw, *rows, targets)
    worst = {}
    for name, values in plain.items():
        exact, found = values.cpu().numpy(), columns[name][:64]
        if exact.dtype == np.float64:
            worst[name] = float((np.abs(exact - found) / np.maximum(np.abs(exact), 1e-3)).max())
        elif not np.array_equal(exact, found):
            worst[name] = float("inf")
    return worst


if __name__ == "__main__":
    main()
