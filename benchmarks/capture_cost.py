"""What capture costs: plain prefill against capture variants, interleaved in one engine.

    PYTHONPATH=. VLLM_PYTHON benchmarks/capture_cost.py --model DIR --tokens 7168 --repeats 5 --json OUT.json

Runs under an interpreter with vLLM; `benchmarks/capture.py` starts it with the settings of the CPU set. Every round
runs each variant once, in an order that turns from round to round; the ratio of a variant is the median over rounds of
its time over the plain time of the same round, with the range of all rounds beside it. A variant's time ends when its
last row is on disk; `engine_seconds` are those until the engine was done.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

VARIANTS: dict[str, dict[str, Any]] = {
    "stride32": {"codec": "logits", "stride": 32, "ranges": []},
    "hidden": {"codec": "hidden", "stride": 1, "ranges": []},
    "logits": {"codec": "logits", "stride": 1, "ranges": []},
    # Four ranges of 500 tokens, as around tool calls.
    "ranges": {"codec": "logits", "stride": None, "ranges": "four"},
    # The last 16,384 positions in one go: how fast logits reach the disk.
    "block": {"codec": "logits", "stride": None, "ranges": "block"},
    # Every position scored in FP64 against a stored reference while the engine runs: scores and hidden states are
    # written, no logits. The reference is the stack's own capture, so every divergence must be 0.
    "streaming": {"codec": "hidden", "stride": 1, "ranges": []},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--engine", default="{}", help="JSON: keyword arguments of vllm.LLM")
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--ids", type=Path, help=".npy of token ids; random ids without it")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--variants", default="stride32,hidden,logits")
    parser.add_argument("--rows-per-gemm", type=int, default=64)
    parser.add_argument("--chunk-rows", type=int, default=1024)
    parser.add_argument("--flat-logprobs", type=int, default=0, help="also time prompt_logprobs=-1 on this many tokens")
    parser.add_argument("--keep", type=Path, help="keep the last hidden capture here")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM

    started = time.perf_counter()
    arguments: dict[str, Any] = {"worker_extension_cls": "suite.agent.worker.CaptureWorker", "disable_log_stats": True}
    if options.flat_logprobs:
        arguments |= {"max_logprobs": -1, "logprobs_mode": "raw_logits"}
    else:
        arguments |= {"skip_tokenizer_init": True}
    llm = LLM(model=options.model, **arguments, **json.loads(options.engine))
    report: dict[str, Any] = {"start_seconds": round(time.perf_counter() - started, 1), "tokens": options.tokens}
    vocab_size = llm.collective_rpc("suite_vocab_size")[0]
    report["vocab_size"] = vocab_size
    if options.ids is not None:
        tokens = np.load(options.ids)[: options.tokens].astype(np.int32)
    else:
        tokens = np.random.default_rng(0).integers(0, min(vocab_size, 40_000), options.tokens).astype(np.int32)
    work = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    np.save(work / "tokens.npy", tokens)
    prefill(llm, tokens)  # first use compiles kernels

    names = [name for name in options.variants.split(",") if name]
    if "streaming" in names:
        options.reference = stored_reference(llm, tokens, work, options)
    rounds = []
    for number in range(options.repeats):
        order = ["plain", *names]
        order = order[number % len(order) :] + order[: number % len(order)]
        times = {}
        for name in order:
            times[name] = (
                prefill(llm, tokens) if name == "plain" else captured(llm, name, tokens, work, options, report)
            )
        rounds.append(times)
        print(json.dumps(times), flush=True)
    report["rounds"] = rounds
    report["rows"] = summary(rounds, names, report.get("engine_seconds", {}))
    if "block" in names:
        report["bounds_gb_per_second"] = bounds(work)
    if options.flat_logprobs:
        report["flat_logprobs"] = flat_logprobs(llm, tokens[: options.flat_logprobs])
    report["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if options.keep is not None and (work / "hidden").is_dir():
        shutil.rmtree(options.keep, ignore_errors=True)
        shutil.move(work / "hidden", options.keep)
    shutil.rmtree(work, ignore_errors=True)
    print(json.dumps({k: v for k, v in report.items() if k not in ("rounds", "chunks")}, indent=1))
    if options.json:
        options.json.write_text(json.dumps({k: v for k, v in report.items() if k != "chunks"}, indent=1))


def prefill(llm: Any, tokens: np.ndarray) -> float:
    """Seconds of one plain prefill (and one token)."""
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True, detokenize=False)
    started = time.perf_counter()
    llm.generate([{"prompt_token_ids": tokens.tolist()}], parameters, use_tqdm=False)
    return time.perf_counter() - started


def captured(llm: Any, name: str, tokens: np.ndarray, work: Path, options: Any, report: dict[str, Any]) -> float:
    """Seconds of one captured prefill, until the last row is on disk."""
    out = work / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    ranges: Any = VARIANTS[name]["ranges"]
    if ranges == "block":
        ranges = [[max(1, len(tokens) - 16_384), len(tokens)]]
    if ranges == "four":
        ranges = [[len(tokens) * k // 5, len(tokens) * k // 5 + 500] for k in range(1, 5)]
    spec = VARIANTS[name] | {
        "ranges": ranges,
        "path": "prefill",
        "tokens": str(work / "tokens.npy"),
        "out": str(out),
        "rows_per_gemm": options.rows_per_gemm,
        "chunk_rows": options.chunk_rows,
        "kept": [],
        "compare": False,
        "trusted_until": 0,
        "score": options.reference if name == "streaming" else None,
    }
    started = time.perf_counter()
    llm.collective_rpc("suite_arm", args=(spec,))
    armed = time.perf_counter() - started
    inner = prefill(llm, tokens)
    result = llm.collective_rpc("suite_disarm")[0]
    seconds = time.perf_counter() - started
    size = sum(chunk["size_bytes"] for chunk in result["chunks"])
    report.setdefault("engine_seconds", {}).setdefault(name, []).append(inner)
    report.setdefault("captures", {})[name] = {
        "rows": result["num_rows"],
        "bytes": size,
        "gb_per_second": round(size / max(result["writer_span_seconds"], 1e-9) / 1e9, 3),
        "hook_seconds": round(result["hook_seconds"], 4),
        "writer_busy_seconds": round(result["writer_seconds"], 3),
        "arm_seconds": round(armed, 4),
        "drain_seconds": round(seconds - inner - armed, 4),
    }
    if name == "streaming":
        assert not result["not_streamed"], result["not_streamed"]
        report["captures"][name] |= streamed_facts(out / ".streamed.npz")
    report.setdefault("chunks", {})[name] = result["chunks"]
    return seconds


def stored_reference(llm: Any, tokens: np.ndarray, work: Path, options: Any) -> dict[str, Any]:
    """A capture of hidden states with its fingerprints, and the head, as a reference has them."""
    options.reference = None
    scratch: dict[str, Any] = {}
    captured(llm, "hidden", tokens, work, options, scratch)
    shards = [llm.collective_rpc("suite_save_head", args=(str(work / "heads"),))[0]["sha256"]]
    folder = work / "reference"
    shutil.move(work / "hidden", folder)
    started = time.perf_counter()
    for chunk in scratch["chunks"]["hidden"]:
        arguments = (str(folder), chunk, str(work / "heads"), shards, options.rows_per_gemm)
        llm.collective_rpc("suite_fingerprint", args=arguments)
    print(f"fingerprint: {time.perf_counter() - started:.1f} s", flush=True)
    chunks = [str(folder / chunk["file"]) for chunk in scratch["chunks"]["hidden"]]
    return {"chunks": chunks, "heads": str(work / "heads"), "shards": shards, "rows_per_gemm": options.rows_per_gemm}


def streamed_facts(path: Path) -> dict[str, Any]:
    """What the scores of a stack against itself say."""
    with np.load(path, allow_pickle=False) as arrays:
        return {
            "flips": int(arrays["flip"].sum()),
            "largest_kl": float(arrays["kl_ref_cand"].max()),
            "rows_as_captured": int(arrays["reference_captured"].sum()),
        }


def summary(rounds: list[dict[str, float]], names: list[str], engine: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Per variant: median seconds, and the ratio to plain paired by round, to the last row and to the engine's end."""
    rows = [{"variant": "plain", "median_seconds": statistics.median(r["plain"] for r in rounds)}]
    for name in names:
        ratios = sorted(r[name] / r["plain"] for r in rounds)
        inner = sorted(e / r["plain"] for e, r in zip(engine[name], rounds, strict=True))
        rows.append(
            {
                "variant": name,
                "median_seconds": statistics.median(r[name] for r in rounds),
                "median_ratio": statistics.median(ratios),
                "ratio_range": [ratios[0], ratios[-1]],
                "engine_median_ratio": statistics.median(inner),
                "engine_ratio_range": [inner[0], inner[-1]],
            }
        )
    return rows


def bounds(work: Path) -> dict[str, float]:
    """What limits rows on their way to disk: the copy from the device into pinned memory, and a plain file, flushed."""
    import torch

    host = torch.zeros(1 << 30, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
    speeds = {}
    if torch.cuda.is_available():
        rows = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
        for _ in range(2):
            torch.cuda.synchronize()
            started = time.perf_counter()
            host.copy_(rows, non_blocking=True)
            torch.cuda.synchronize()
            speeds["device_to_host"] = round(host.numel() / (time.perf_counter() - started) / 1e9, 2)
    started = time.perf_counter()
    for number in range(4):
        with (work / f"plain-{number}").open("wb") as stream:
            stream.write(memoryview(host.numpy()))
            stream.flush()
            os.fsync(stream.fileno())
    return speeds | {"disk": round(4 * host.numel() / (time.perf_counter() - started) / 1e9, 2)}


def flat_logprobs(llm: Any, tokens: np.ndarray) -> dict[str, Any]:
    """vLLM's own way to full-vocabulary prompt logits: seconds and resident memory."""
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=-1, flat_logprobs=True, detokenize=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    llm.generate([{"prompt_token_ids": tokens.tolist()}], parameters, use_tqdm=False)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "tokens": len(tokens),
        "seconds": seconds,
        "positions_per_second": len(tokens) / seconds,
        "peak_rss_bytes": after,
        "peak_rss_before_bytes": before,
    }


if __name__ == "__main__":
    main()
