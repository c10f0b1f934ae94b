"""Speed, capacity and flips of stacks at one exact context: what a person weighs who picks a backend and a KV dtype.

    python3 benchmarks/gpu/matrix_32k.py --out DIR [--context 32768] [--results RESULTS] MANIFEST...

Each stack runs in a process of its own: one prompt that fills the context up to `--decode` tokens, then those. Prefill
and decode times are the engine's own (`RequestOutput.metrics`), medians of `--repeats` after one that is not counted.
A few engines start side by side; they are measured one after another while the others wait. DIR keeps one JSON file a
stack, so that the same command goes on where it was cut off; flips are those of the stack's latest bundle in RESULTS.
Speeds are of single requests with graphs (`--eager` as measured), and of no server under load.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONG_SESSION = "workloads/netops-lab/session-100k.json"
_STATUS = "MATRIX_STATUS_FD"
# The line of an engine's log that names the cause, under the prefixes that processes and loggers put before it.
_ERROR = re.compile(r"((?:[A-Za-z_.]*Error|AgentFailure|Exception): .*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A child that starts, or has started, one engine."""

    name: str
    process: subprocess.Popen[str]
    status: int
    """Read end of a pipe: one byte says that the engine is ready, its end that the child is gone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--context", type=int, default=32_768, help="prompt and decoded tokens together")
    parser.add_argument("--decode", type=int, default=256, help="tokens decoded at the end of the context")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=4, help="engines that start side by side")
    parser.add_argument("--eager", action="store_true", help="no graphs")
    parser.add_argument("--minutes", type=float, default=9.0, help="start no engines after this long")
    parser.add_argument("--seconds", type=float, default=400.0, help="give a start up after this long")
    parser.add_argument("--again", action="store_true", help="run the stacks again that failed")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    if not options.manifests or options.out is None:
        parser.error("needs --out DIR and at least one manifest")
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    left = [path for path in options.manifests if not is_done(options.out / f"{path.stem}.json", again=options.again)]
    while left and (time.monotonic() - started) / 60 < options.minutes:
        batch, left = left[: options.jobs], left[options.jobs :]
        print(f"[{time.monotonic() - started:5.0f} s] {' '.join(path.stem for path in batch)}", flush=True)
        engines = [start(path, options) for path in batch]
        ready = [engine for engine in engines if is_ready(engine, options.seconds)]
        for engine in ready:
            measure(engine, options.seconds)
        for engine in engines:
            finish(engine, options.out)
    print(table(options.manifests, options.out, options.results))
    print(f"[{time.monotonic() - started:5.0f} s] not run: {[path.stem for path in left]}")


def is_done(path: Path, *, again: bool) -> bool:
    return path.is_file() and not (again and "error" in json.loads(path.read_text()))


def start(manifest: Path, options: argparse.Namespace) -> Engine:
    """Write the child's request and start it with the stack's interpreter, environment and the agent."""
    from suite.files import pretty_json
    from suite.manifest.load import load_manifest
    from suite.manifest.resolve import resolve
    from suite.observer import SilentObserver
    from suite.runtime.environment import FIXED
    from suite.runtime.process import find_interpreter
    from suite.runtime.staging import stage_agent
    from suite.stack.engine_arguments import engine_arguments, expected_settings, stack_environment
    from suite.stack.home import suite_home
    from suite.workload.render import render
    from suite.workload.session import load_session

    loaded, home = load_manifest(manifest), suite_home()
    python = find_interpreter(loaded.runtime.python, os.environ, loaded.root)
    resolved = resolve(loaded, home=home, python=python, observer=SilentObserver())
    changes = {"max_model_len": options.context, "enforce_eager": options.eager}
    lock = resolved.lock.model_copy(update={"engine": resolved.lock.engine.model_copy(update=changes)})
    template = loaded.workload.chat_template
    rendered = render(
        load_session(loaded.root / LONG_SESSION),
        resolved.model_folder,
        chat_template=(loaded.root / template).read_text(encoding="utf-8") if template else None,
    )
    prompt_tokens = options.context - options.decode
    if not 0 < prompt_tokens <= len(rendered.token_ids):
        raise SystemExit(f"the session has {len(rendered.token_ids):,} tokens, the prompt needs {prompt_tokens:,}")
    request = options.out / f"{manifest.stem}.request.json"
    request.write_bytes(
        pretty_json(
            {
                "model": str(resolved.model_folder),
                "engine": engine_arguments(lock),
                "expect": expected_settings(lock),
                "prompt": list(rendered.token_ids[:prompt_tokens]),
                "decode": options.decode,
                "repeats": options.repeats,
                "out": str((options.out / f"{manifest.stem}.json").absolute()),
            }
        )
    )
    status, theirs = os.pipe()
    own = {"PYTHONPATH": str(stage_agent(home)), "VLLM_ENABLE_V1_MULTIPROCESSING": "0", _STATUS: str(theirs)}
    with (options.out / f"{manifest.stem}.log").open("w") as log:
        process = subprocess.Popen(
            [str(python), "-P", str(Path(__file__).absolute()), "--child", str(request.absolute())],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            pass_fds=[theirs],
            env=os.environ | FIXED | stack_environment(lock) | own,
        )
    os.close(theirs)
    return Engine(name=manifest.stem, process=process, status=status)


def is_ready(engine: Engine, seconds: float) -> bool:
    """Wait for a child's word; one that says nothing in time is ended."""
    readable, _, _ = select.select([engine.status], [], [], seconds)
    ready = bool(readable) and os.read(engine.status, 1) == b"r"
    os.close(engine.status)
    if not ready:
        engine.process.kill()
    return ready


def measure(engine: Engine, seconds: float) -> None:
    """Give the word to one child and wait until it has ended."""
    try:
        engine.process.communicate("go\n", timeout=seconds)
    except subprocess.TimeoutExpired:
        engine.process.kill()


def finish(engine: Engine, out: Path) -> None:
    """Reap a child; where it left no result, the cause from its log is the result."""
    engine.process.wait()
    path = out / f"{engine.name}.json"
    if engine.process.returncode != 0 or not path.is_file():
        causes = _ERROR.findall((out / f"{engine.name}.log").read_text(errors="replace"))
        cause = causes[-1] if causes else f"ended with {engine.process.returncode}"
        path.write_text(json.dumps({"error": cause[:300]}))
        print(f"  {engine.name}: {cause[:200]}", flush=True)


def child(request_file: Path) -> None:
    """Start the engine, wait for the word, measure. Only the agent's modules are at hand here."""
    import numpy as np
    from vllm import SamplingParams

    from suite.agent.engine import start_engine
    from suite.agent.settings import effective_settings, mismatches

    request = json.loads(request_file.read_text())
    # The engine keeps a request's times only where it keeps statistics.
    llm = start_engine(request["model"], request["engine"] | {"disable_log_stats": False})
    ranks = llm.collective_rpc("suite_receipt")
    effective = effective_settings(ranks)
    if differing := mismatches(request["expect"], effective):
        raise ValueError(f"the engine does not use what the manifest asks for: {'; '.join(differing)}")
    prompt = [{"prompt_token_ids": np.asarray(request["prompt"]).tolist()}]
    parameters = SamplingParams(temperature=0.0, max_tokens=request["decode"], ignore_eos=True, detokenize=False)
    os.write(int(os.environ[_STATUS]), b"r")
    if sys.stdin.readline() != "go\n":
        return
    rounds = []
    for _ in range(1 + request["repeats"]):
        begun = time.perf_counter()
        (output,) = llm.generate(prompt, parameters, use_tqdm=False)
        wall = time.perf_counter() - begun
        times = output.metrics
        rounds.append(
            {
                "prefill_seconds": times.first_token_ts - times.scheduled_ts,
                "decode_seconds": times.last_token_ts - times.first_token_ts,
                "wall_seconds": wall,
            }
        )
    result = {
        "prompt_tokens": len(request["prompt"]),
        "decoded_tokens": request["decode"],
        "not_counted": rounds[0],
        "rounds": rounds[1:],
        "kv_cache": ranks[0]["kv_cache"],
        "max_model_len": ranks[0]["max_model_len"],
        "effective": effective,
    }
    Path(request["out"]).write_text(json.dumps(result, indent=1, default=str))


def speeds(result: dict[str, Any]) -> tuple[float, float]:
    """Medians: prompt tokens a second, and tokens a second after the first."""
    prefill = statistics.median(result["prompt_tokens"] / each["prefill_seconds"] for each in result["rounds"])
    decode = statistics.median((result["decoded_tokens"] - 1) / each["decode_seconds"] for each in result["rounds"])
    return prefill, decode


def table(manifests: list[Path], out: Path, results: Path) -> str:
    """One line a stack, and the same as `matrix.json` in `out`."""
    from suite.manifest.load import load_manifest
    from suite.stack.receipt_view import capacity_of

    rows = []
    for path in manifests:
        file = out / f"{path.stem}.json"
        if not file.is_file():
            continue
        result, manifest = json.loads(file.read_text()), load_manifest(path)
        row: dict[str, Any] = {"stack": manifest.name, "kv_cache_dtype": manifest.engine.kv_cache_dtype}
        row["backend"] = " ".join(
            str(part) for part in (manifest.engine.attention_backend, manifest.engine.flash_attn_version) if part
        )
        row["flips"] = flips_of(manifest.name, manifest.role, results)
        if "error" in result:
            row["error"] = result["error"]
        else:
            row["prefill_tokens_per_second"], row["decode_tokens_per_second"] = speeds(result)
            capacity = capacity_of(result["kv_cache"], result["max_model_len"])
            # The figure that vLLM calls the size is wrong where layers of two kinds share the cache.
            row["kv_tokens"] = capacity.tokens_from_concurrency or capacity.tokens_from_line
            row["rounds"] = result["rounds"]
        rows.append(row)
    (out / "matrix.json").write_text(json.dumps(rows, indent=1))
    head = f"{'backend':<18}{'KV dtype':<22}{'prefill tok/s':>14}{'decode tok/s':>14}{'KV tokens':>14}  flips"
    return "\n".join([head, *map(line, rows)])


def line(row: dict[str, Any]) -> str:
    start = f"{row['backend']:<18}{row['kv_cache_dtype']:<22}"
    if "error" in row:
        return f"{start}{row['error']}"
    speed = f"{row['prefill_tokens_per_second']:>14,.0f}{row['decode_tokens_per_second']:>14,.1f}"
    return f"{start}{speed}  {row['kv_tokens'] or 0:>12,}  {row['flips'] or 'no bundle'}"


def flips_of(name: str, role: str, results: Path) -> str | None:
    """The flips of a stack's latest bundle, with what it was compared with; None if there is none."""
    from suite.bundle.read import open_bundle

    if role == "reference":
        return "reference"
    folders = sorted(path.parent for path in results.glob(f"{name}/*/bundle.json"))
    if not folders:
        return None
    bundle = open_bundle(folders[-1])
    headlines = bundle.record.headlines
    return f"{headlines.flips} of {headlines.n} to {bundle.lock('reference-lock.json').name}"


if __name__ == "__main__":
    main()
