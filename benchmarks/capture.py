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

    def run(*arguments: str) -> dict:
        out = work / "out.json"
        command = [
            str(stack.runtime.python),  # type: ignore[attr-defined]
            str(ROOT / "benchmarks" / "capture_cost.py"),
            "--model", str(stack.model_folder),
            "--engine", json.dumps(engine_arguments(stack.lock)),
            "--ids", str(work / "ids.npy"),
            "--json", str(out),
            *arguments,
        ]  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        return json.loads(out.read_text())

    middle, long, short = "4096", str(min(7168, stack.lock.workload.num_tokens)), "2048"
    cost = run("--tokens", middle, "--repeats", "5")
    ratio = {row["variant"]: row for row in cost["rows"]}
    print(f"prefill of {middle} tokens, ratio to plain (median of 5 interleaved rounds, range)")
    for name, bar in (("stride32", 1.02), ("hidden", 1.05), ("logits", 1.20)):
        row = ratio[name]
        low, high = row["ratio_range"]
        print(f"  {name:<9} {row['median_ratio']:.3f}  [{low:.3f}, {high:.3f}]   bar {bar:.2f}")
    flat = run("--tokens", middle, "--repeats", "2", "--variants", "logits", "--flat-logprobs", "512")
    own = int(middle) / next(r for r in flat["rows"] if r["variant"] == "logits")["median_seconds"]
    other = flat["flat_logprobs"]
    print(f"positions a second: capture {own:.0f}, prompt_logprobs=-1 flat {other['positions_per_second']:.1f}")
    print(f"  {own / other['positions_per_second']:.1f} times   bar 15 times")
    memory = {n: run("--tokens", n, "--repeats", "1", "--variants", "logits")["peak_rss_bytes"] for n in (short, long)}
    plain = {n: run("--tokens", n, "--repeats", "1", "--variants", "")["peak_rss_bytes"] for n in (short, long)}
    vocab = 49_152
    added = {n: memory[n] - plain[n] for n in memory}
    flat_bytes = other["peak_rss_bytes"] - other["peak_rss_before_bytes"]
    # Both per token, since the engine's own way cannot hold the longer prompt.
    print(f"memory of logits at every position over plain: {added[short] / 1e6:.0f} MB at {short} tokens,")
    print(f"  {added[long] / 1e6:.0f} MB at {long}")
    print(f"  growth {(added[long] - added[short]) / 1e6:.0f} MB   bar one chunk, {1024 * vocab * 2 / 1e6:.0f} MB")
    print(f"  the engine's own way added {flat_bytes / 1e6:.0f} MB for {other['tokens']} tokens")
    print(f"  bytes a position: {added[long] / int(long):,.0f} against {flat_bytes / other['tokens']:,.0f}")


if __name__ == "__main__":
    main()
