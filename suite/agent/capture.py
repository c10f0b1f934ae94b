"""Drive one start of one stack: engine, receipt, sanity check, capture, index."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from suite.agent.chunks import ChunkFile, Journal, file_sha256, read_journal, start_journal
from suite.agent.company import company
from suite.agent.engine import armed, generate, start_pinned, vllm_version
from suite.agent.events import AgentFailure, Events, write_json
from suite.agent.job import CaptureJob
from suite.agent.positions import wanted_positions
from suite.agent.recorded import read_tokens
from suite.agent.scoring.job import save_arrays
from suite.agent.scoring.streaming import settle
from suite.agent.settings import effective_settings, require_effective
from suite.agent.worker import STREAMED_NAME

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "tekken.json", "vocab.json")


def run(request: dict[str, Any], events: Events) -> None:
    """Capture the job `request` into its folder; `index.json` is written last, so with it a capture is complete.

    Raises:
        AgentFailure: with the kind of the first thing that makes a valid result impossible.
    """
    job = CaptureJob.from_json(request)
    out = Path(job.out)
    tokens = _read_tokens(job)
    journal, kept = _resume(out, job)
    llm = start_pinned(job.model, job.model_files, job.engine, events)

    receipt = _receipt(llm, job)
    write_json(out / "receipt.json", receipt)
    require_effective(
        job.expect,
        receipt["effective"],
        asking="the manifest",
        hint="correct the manifest, or use an engine and hardware that support the setting",
    )
    sanity = _sanity(llm, job, tokens, int(receipt["ranks"][0]["vocab_size"]), events)

    tokenizer_size = _tokenizer_size(job)

    codec, replay, head = journal.codec, journal.replay, None
    captured = _capture(llm, job, tokens, codec, kept, events)
    if codec == "hidden":
        replay, head = _probe(llm, job, captured, events)
        if not replay["accepted"]:
            _refuse_or_note(job, replay, events)
            codec, head = "logits", None
            start_journal(out, Journal(job=journal.job, codec=codec, replay=replay))
            captured = _capture(llm, job, tokens, codec, [], events)
    if head is not None:
        _fingerprint(llm, job, captured, head["sha256s"], events)
    if job.score is not None:
        _settle_streamed(job, job.score, captured, codec, events)
    if captured["non_finite_rows"]:
        raise AgentFailure(
            "non_finite",
            f"{captured['non_finite_rows']} of {captured['num_rows']} captured rows hold NaN or infinity",
            "the stack computes garbage at these positions; the run is invalid as a whole",
        )
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
            "tokenizer_size": tokenizer_size,
            "rows_per_gemm": _rows_per_gemm(job),
            "tokens_sha256": job.tokens_sha256,
            "num_tokens": len(tokens),
            "steps": [list(step) for step in captured["steps"]],
            "chunks": [chunk.to_index() for chunk in captured["chunks"]],
            "head": head,
            "replay_probe": replay,
            "non_finite_rows": 0,
            "sanity": sanity,
            "engine": {
                "vllm": vllm_version(),
                "torch": importlib.metadata.version("torch"),
                "model_runner": receipt["effective"]["model_runner"],
            },
            "receipt_sha256": file_sha256(out / "receipt.json"),
            "timings": {name: round(seconds, 3) for name, seconds in events.seconds.items()},
        },
    )


def _read_tokens(job: CaptureJob) -> np.ndarray[Any, Any]:
    tokens = read_tokens(job.tokens, job.tokens_sha256)
    limit = job.engine.get("max_model_len")
    if limit is not None and len(tokens) >= limit:  # the engine always generates one token more
        raise AgentFailure(
            "context",
            f"the workload has {len(tokens)} tokens, the engine's context of {limit} has no room for it and one more",
            "raise engine.max_model_len or choose a shorter workload; a workload is never shortened to fit",
        )
    return tokens


def _resume(out: Path, job: CaptureJob) -> tuple[Journal, list[ChunkFile]]:
    """Go on from the whole chunks of an interrupted run of this very job, or begin: chunks of any other are removed."""
    digest = _job_digest(job)
    found = read_journal(out)
    if found is not None and found[0].job == digest:
        return found
    journal = Journal(job=digest, codec="hidden" if job.codec == "auto" else job.codec, replay=None)
    start_journal(out, journal)
    return journal, []


def _job_digest(job: CaptureJob) -> str:
    """SHA-256 over what decides the chunks' bytes: the job without paths and limits, and the agent's own code."""
    apart = ("out", "heads", "model", "tokens", "score", "sanity_max_nll")
    identity = {k: v for k, v in job.to_json().items() if k not in apart}
    folder = Path(__file__).parent
    identity["agent"] = {path.name: file_sha256(path) for path in sorted(folder.glob("*.py"))}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _receipt(llm: Any, job: CaptureJob) -> dict[str, Any]:
    ranks = llm.collective_rpc("suite_receipt")
    return {
        "schema_version": 1,
        "requested": job.expect,
        "effective": effective_settings(ranks),
        "ranks": ranks,
        "vllm": vllm_version(),
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
    captured = armed(llm, spec, lambda: generate(llm, tokens[:count], 1))
    total, positions = captured["nll"]
    events.done("sanity")
    limit = math.log(vocab_size) if job.sanity_max_nll is None else job.sanity_max_nll
    mean = total / positions if positions else math.nan
    if not mean <= limit:
        raise AgentFailure(
            "sanity",
            f"mean NLL over the first {positions} positions is "
            + (
                f"not a number{': logits hold NaN or infinity' if positions else ''}; "
                if math.isnan(mean)
                else f"{mean:.3f} nats; "
            )
            + f"a working stack stays under {limit:.3f}",
            "the engine accepted a setting that it computes wrongly; no result is written",
        )
    return {"positions": positions, "mean_nll": mean}


def _capture(
    llm: Any, job: CaptureJob, tokens: np.ndarray[Any, Any], codec: str, whole: list[ChunkFile], events: Events
) -> dict[str, Any]:
    # The last whole chunk is computed again and must come out the same: two processes may share one capture only then.
    kept = whole[:-1]
    trusted = kept[-1].last_position + 1 if kept else 0
    spec = _spec(job, codec, kept=[dataclasses.asdict(c) for c in kept], compare=bool(whole), trusted_until=trusted)
    if codec == "hidden" and job.path == "prefill" and not whole:
        spec["score"] = job.score
    if whole:
        events.emit(
            "note", text=f"resuming after {len(kept)} whole chunks; chunk {len(kept)} is computed again and compared"
        )
    done, to_do = _split_ranges(job, trusted)
    own = [len(tokens)] if job.path == "prefill" else [a for a, _ in to_do]
    spec |= {"neighbours": job.neighbours, "own_lengths": own}
    name = f"capture {job.path}"
    events.phase(name, total=len(tokens) if job.path == "prefill" else sum(b for _, b in to_do), unit="tokens")
    if job.path == "prefill":
        captured = armed(llm, spec, lambda: _generate(llm, job, tokens, 1, own))
    else:
        captured = armed(llm, spec, lambda: _decode(llm, job, tokens, to_do, own, events))
        captured["steps"] = [(p, 1) for a, b in done for p in range(a, b - 1)] + captured["steps"]
    events.done(name)
    captured["chunks"] = [ChunkFile(**chunk) for chunk in captured["chunks"]]
    _require_complete(job, len(tokens), captured)
    _require_company(job, captured)
    captured["vocab_size"] = llm.collective_rpc("suite_vocab_size")[0] if codec == "hidden" else captured["width"]
    return captured


def _split_ranges(job: CaptureJob, trusted: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The ranges of a decode capture whose rows are all there, and those that must run (again)."""
    ranges = [(a, b) for a, b in job.ranges if b - a >= 2] if job.path == "decode" else []
    return [r for r in ranges if r[1] - 1 <= trusted], [r for r in ranges if r[1] - 1 > trusted]


def _require_complete(job: CaptureJob, num_tokens: int, captured: dict[str, Any]) -> None:
    """Every wanted position exactly once, and every token of the prompt computed, or the capture is none."""
    wanted = int(wanted_positions(path=job.path, stride=job.stride, ranges=job.ranges, num_tokens=num_tokens).sum())
    steps = sum(count for _, count in captured["steps"])
    short = job.path == "prefill" and steps != num_tokens
    if captured["num_rows"] != wanted or short:
        raise AgentFailure(
            "incomplete",
            f"{captured['num_rows']} of {wanted} rows were captured in steps of {steps} tokens",
            "the engine skipped or repeated tokens: prefix caching, preemption or speculation must be off",
        )


def _require_company(job: CaptureJob, captured: dict[str, Any]) -> None:
    """Neighbours in every step, or the capture says nothing about them."""
    alone = captured["steps_alone"]
    if job.neighbours and alone:
        raise AgentFailure(
            "alone",
            f"{alone} of {len(captured['steps'])} steps ran without all {job.neighbours} neighbours",
            "let max_num_batched_tokens hold every request's share (extra.long_prefill_token_threshold), and the KV "
            "cache all of them",
        )


def _generate(
    llm: Any, job: CaptureJob, prompt: np.ndarray[Any, Any], new_tokens: int, own_lengths: Sequence[int]
) -> None:
    beside = company(prompt, new_tokens, neighbours=job.neighbours, own_lengths=own_lengths)
    generate(llm, prompt, new_tokens, beside=beside)


def _decode(
    llm: Any,
    job: CaptureJob,
    tokens: np.ndarray[Any, Any],
    ranges: Sequence[tuple[int, int]],
    own_lengths: Sequence[int],
    events: Events,
) -> None:
    """One request per range: its prompt is all that comes before, and every step is forced to the recorded token."""
    for a, b in ranges:
        _generate(llm, job, tokens[:a], b - a, own_lengths)
        events.emit("advance", count=b)


def _rows_per_gemm(job: CaptureJob) -> int:
    """Decode steps hold one row; padding them would not be what the engine computed."""
    return job.rows_per_gemm if job.path == "prefill" else 1


def _probe(
    llm: Any, job: CaptureJob, captured: dict[str, Any], events: Events
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Keep the head and see whether stored hidden states give the live logits back bit for bit.

    Returns:
        The probe's counts and verdict, and the head as the index names it (None if the stack's head cannot be kept).
    """
    events.phase("replay probe")
    shards = llm.collective_rpc("suite_save_head", args=(job.heads,))
    found, head = {"rows": 0, "equal": 0}, None
    if None not in shards:
        head = {key: shards[0][key] for key in ("scale", "soft_cap", "has_bias")}
        head["sha256s"] = [shard["sha256"] for shard in shards]
        chunks = [str(Path(job.out) / chunk.file) for chunk in captured["chunks"]]
        found = llm.collective_rpc(
            "suite_replay_probe", args=(job.heads, head["sha256s"], chunks, _rows_per_gemm(job))
        )[0]
    events.done("replay probe")
    return found | {"accepted": found["rows"] > 0 and found["rows"] == found["equal"]}, head


def _refuse_or_note(job: CaptureJob, replay: dict[str, Any], events: Events) -> None:
    """The probe failed: with codec `hidden` that ends the run, with `auto` rows are stored instead."""
    what = (
        f"{replay['equal']} of {replay['rows']} probe rows are equal bit for bit"
        if replay["rows"]
        else "it is quantised, or this model keeps it elsewhere"
    )
    if job.codec == "hidden":
        raise AgentFailure(
            "codec", f"the head cannot be replayed on this stack: {what}", "set `codec: logits` or `codec: auto`"
        )
    events.emit("note", text=f"the head cannot be replayed on this stack ({what}); falling back to codec logits")


def _fingerprint(llm: Any, job: CaptureJob, captured: dict[str, Any], shards: list[str], events: Events) -> None:
    """Give every hidden row the SHA-256, top logits and logsumexp of its logits, computed in this stack."""
    events.phase("fingerprint", total=captured["num_rows"], unit="rows")
    done = []
    for chunk in captured["chunks"]:
        arguments = (job.out, dataclasses.asdict(chunk), job.heads, shards, _rows_per_gemm(job))
        done.append(ChunkFile(**llm.collective_rpc("suite_fingerprint", args=arguments)[0]))
        events.emit("advance", count=chunk.num_rows)
    captured["chunks"] = done
    captured["non_finite_rows"] = sum(chunk.non_finite_rows for chunk in done)
    events.done("fingerprint")


def _settle_streamed(
    job: CaptureJob, score: dict[str, Any], captured: dict[str, Any], codec: str, events: Events
) -> None:
    """Check the scores made while the engine ran against the capture's fingerprints and leave them as one file."""
    path = Path(job.out) / STREAMED_NAME
    if codec != "hidden" or not path.is_file():
        why = captured.get("not_streamed") or "only a whole prefill capture of hidden states is"
        events.emit("note", text=f"not scored while the engine ran: {why}")
        path.unlink(missing_ok=True)
        return
    stored: dict[str, list[Any]] = {"top_ids": [], "largest": [], "logsumexp": []}
    for chunk in captured["chunks"]:
        with safe_open(str(Path(job.out) / chunk.file), framework="pt") as file:
            stored["top_ids"].append(file.get_tensor("top_ids").numpy())
            stored["largest"].append(file.get_tensor("top_logits")[:, 0].double().numpy())
            stored["logsumexp"].append(file.get_tensor("logsumexp").numpy())
    with np.load(path, allow_pickle=False) as arrays:
        streamed = dict(arrays)
    save_arrays(
        Path(score["columns"]), settle(streamed, {name: np.concatenate(parts) for name, parts in stored.items()})
    )
    path.unlink()


def _tokenizer_size(job: CaptureJob) -> int | None:
    if not any((Path(job.model) / name).is_file() for name in _TOKENIZER_FILES):
        return None
    from transformers import AutoTokenizer

    try:
        return len(AutoTokenizer.from_pretrained(job.model))
    except (OSError, ValueError):
        return None
