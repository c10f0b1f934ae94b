"""The bars on what capture costs on a CPU, in one command.

    .venv/bin/python benchmarks/capture.py

Needs the stack's interpreter (SUITE_VLLM_PYTHON or .venv-vllm) and the demo's model, which is fetched if absent. Prints
each figure beside its bar; machines are noisy, so only ratios within one run are compared.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from suite.files import write_atomic
from suite.observer import SilentObserver
from suite.run.stack import prepare_stack
from suite.stack.engine_arguments import engine_arguments, stack_environment
from suite.stack.home import suite_home

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    stack = prepare_stack(ROOT / "manifests" / "cpu-bf16.yaml", home=suite_home(), root=ROOT, observer=SilentObserver())
    work = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    buffer = io.BytesIO()
    np.save(buffer, np.array(stack.rendered.token_ids, dtype=np.int32))
    write_atomic(work / "ids.npy", buffer.getvalue())
    environment = os.environ | stack_environment(stack.lock) | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}

    def run(*arguments: str, threads: int = 1) -> dict:
        out = work / "out.json"
        command = [
            str(stack.runtime.python),  # type: ignore[attr-defined]
            str(ROOT / "benchmarks" / "capture_cost.py"),
            "--model", str(stack.model_folder),
            "--engine", json.dumps(engine_arguments(stack.lock)),
            "--ids", str(work / "ids.npy"),
            "--rows-per-gemm", str(stack.lock.capture.rows_per_gemm),
            "--chunk-rows", str(stack.lock.capture.chunk_rows),
            "--json", str(out),
            *arguments,
        ]  # fmt: skip
        settings = environment | {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        return json.loads(out.read_text())

    short, long = "2048", str(min(7168, stack.lock.workload.num_tokens))
    cost = run("--tokens", long, "--repeats", "5")
    ratio = {row["variant"]: row for row in cost["rows"]}
    print(f"prefill of {long} tokens, ratio to plain (median of 5 interleaved rounds, range)")
    for name, bar in (("stride32", 1.02), ("hidden", 1.05), ("logits", 1.20)):
        row = ratio[name]
        low, high = row["ratio_range"]
        print(f"  {name:<9} {row['median_ratio']:.3f}  [{low:.3f}, {high:.3f}]   bar {bar:.2f}")

    # As long as the engine's own way fits into memory here, and with all cores for both.
    threads = os.cpu_count() or 1
    flat = run(
        "--tokens", short, "--repeats", "3", "--variants", "hidden,logits", "--flat-logprobs", short, threads=threads
    )
    other = flat["flat_logprobs"]
    seconds = {row["variant"]: row["median_seconds"] for row in flat["rows"]}
    print(f"positions a second at {short} tokens, {threads} threads; prompt_logprobs=-1 flat:", end=" ")
    print(f"{other['positions_per_second']:.1f}")
    for name in ("hidden", "logits"):
        own = int(short) / seconds[name]
        print(f"  {name:<9} {own:.0f}, {own / other['positions_per_second']:.1f} times   bar 15 times")

    logits = {n: run("--tokens", n, "--repeats", "1", "--variants", "logits") for n in (short, long)}
    plain = {n: run("--tokens", n, "--repeats", "1", "--variants", "")["peak_rss_bytes"] for n in (short, long)}
    added = {n: logits[n]["peak_rss_bytes"] - plain[n] for n in logits}
    vocab_size = flat["vocab_size"]
    flat_bytes = other["peak_rss_bytes"] - other["peak_rss_before_bytes"]
    print(f"memory of logits at every position over plain: {added[short] / 1e6:.0f} MB at {short} tokens,")
    print(f"  {added[long] / 1e6:.0f} MB at {long}")
    chunk_bytes = stack.lock.capture.chunk_rows * vocab_size * 2
    print(f"  growth {(added[long] - added[short]) / 1e6:.0f} MB   bar one chunk, {chunk_bytes / 1e6:.0f} MB")
    print(f"  the engine's own way added {flat_bytes / 1e6:.0f} MB at {short} tokens")
    print(f"  share of it {added[short] / flat_bytes:.3f}   bar 0.1")


if __name__ == "__main__":
    main()
