"""What branching costs: futures of many forks with the history shared, and with every history read anew.

    python benchmarks/branching.py --model DIR [--python VLLM_PYTHON] [--forks 2,4,8,16] [--json OUT.json]

Two engines, one with prefix caching and one without, do the same work: forks spread over a history of random tokens,
each continued for the same number of tokens. Between two measurements the cache is emptied. For each number of forks
stand the tokens that were written, the prompt tokens that had to be computed, and seconds. A shared history costs the
history once and then what is written; the ratio says how much longer the other way takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CPU = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--python", default=os.environ.get("SUITE_VLLM_PYTHON", sys.executable))
    parser.add_argument("--engine", default="{}", help="JSON: keyword arguments of vllm.LLM")
    parser.add_argument("--tokens", type=int, default=2048, help="length of the history")
    parser.add_argument("--new-tokens", type=int, default=32, help="tokens of each future")
    parser.add_argument("--forks", default="1,2,4,8,16")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--caching", choices=["on", "off"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.caching:
        print(json.dumps(measure(options)))
        return
    sides = {}
    for caching in ("on", "off"):
        done = subprocess.run(
            [options.python, str(Path(__file__).absolute()), *sys.argv[1:], "--caching", caching],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=CPU | os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        )
        sides[caching] = json.loads(done.stdout.splitlines()[-1])
    print(f"history of {options.tokens:,} tokens, {options.new_tokens} new tokens a future, batches of {options.batch}")
    print("forks  written  computed: shared   anew  seconds: shared    anew  ratio")
    for shared, anew in zip(sides["on"], sides["off"], strict=True):
        print(
            f"{shared['forks']:5}  {shared['new_tokens']:7,}  {shared['computed']:16,} {anew['computed']:6,}"
            f"  {shared['seconds']:15.2f} {anew['seconds']:7.2f}  {anew['seconds'] / shared['seconds']:5.2f}"
        )
    if options.json:
        options.json.write_text(json.dumps(sides, indent=1) + "\n")


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each number of forks, in one engine."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    import numpy as np

    from suite.agent.branch import Branching, BranchJob, generator
    from suite.agent.engine import start_engine

    settings = {
        "enforce_eager": True,
        "max_model_len": options.tokens + options.new_tokens + 8,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": options.batch,
        "enable_prefix_caching": options.caching == "on",
        "skip_tokenizer_init": False,
    }
    llm = start_engine(options.model, settings | json.loads(options.engine))
    tokens = np.random.default_rng(0).integers(1000, 20_000, options.tokens).tolist()
    found = []
    counts = [int(item) for item in options.forks.split(",")]
    # The first round is not kept: kernels and allocators are slow when they are new.
    for forks in (counts[0], *counts):
        step = len(tokens) // (forks + 1)
        positions = [step * (i + 1) + i % 7 for i in range(forks - 1)] + [len(tokens) - 1]
        job = BranchJob(
            out="",
            model=options.model,
            tokens="",
            tokens_sha256="",
            engine={},
            expect={},
            roots=tuple((position, -1) for position in positions),
            given=(),
            end_token_ids=(),
            stop_texts=(),
            max_new_tokens=options.new_tokens,
            batch_size=options.batch,
        )
        llm.reset_prefix_cache()
        work = Branching(
            job=job,
            tokens=tokens,
            context_tokens=int(settings["max_model_len"]),
            generate=generator(llm, job),
            advance=lambda count: None,
        )
        started = time.perf_counter()
        roots = [root | {"winner": root["token"]} for root in work.roots()]
        work.job = replace(job, roots=tuple((root["position"], root["token"]) for root in roots))
        work.futures(roots)
        seconds = time.perf_counter() - started
        totals = work.totals
        found.append(
            {
                "forks": forks,
                "new_tokens": totals.new_tokens,
                "computed": totals.prompt_tokens - totals.cached_tokens,
                "seconds": round(seconds, 3),
            }
        )
    return found[1:]


if __name__ == "__main__":
    main()
