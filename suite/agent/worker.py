"""The worker extension: it captures rows between `execute_model` and `sample_tokens` of a stock vLLM.

Pass `worker_extension_cls="suite.agent.worker.CaptureWorker"`; methods named `suite_*` are called on every rank with
`collective_rpc`. Two things are wrapped, on both model runners: `sample_tokens`, where the final hidden states of all
scheduled tokens are at hand, and the sampler, which receives the decode logits before any processor and returns the
token that the decode path replaces by the recorded one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from suite.agent.chunks import ChunkFile
from suite.agent.events import AgentFailure, Events, failure_of
from suite.agent.head import Head, describe_head, fingerprint, head_of, load_head, pad_rows, save_shard
from suite.agent.positions import probe_sample, wanted_positions
from suite.agent.receipt import worker_receipt
from suite.agent.rows import finite_rows, number_facts
from suite.agent.scoring.job import save_arrays
from suite.agent.scoring.streaming import StreamingScores
from suite.agent.sink import FINITE, RowSink, save_chunk
from suite.agent.steps import Step, read_steps

STREAMED_NAME = ".streamed.npz"
"""Scores made while the engine ran, before they are checked against the fingerprints."""

_HELD_ROWS = 512
"""Hidden states that wait until the head is applied to them; no more than a chunk, and at least one product's worth.
Few rows wait until the engine is done: an engine of short steps would have to share the interpreter with the writer."""


class _Capture:
    """State of one armed capture on one rank."""

    def __init__(self, spec: dict[str, Any], rank: int) -> None:
        self.rank = rank
        self.out = Path(spec["out"])
        self.path: str = spec["path"]
        self.codec: str = spec["codec"]
        self.tokens = np.load(spec["tokens"])
        self.wanted = wanted_positions(
            path=spec["path"],
            stride=spec["stride"],
            ranges=spec["ranges"],
            num_tokens=len(self.tokens),
            trusted_until=spec["trusted_until"],
        )
        self.rows_per_gemm: int = spec["rows_per_gemm"]
        self.neighbours: int = spec.get("neighbours", 0)
        self.own_lengths = frozenset(spec.get("own_lengths", ()))
        self.steps: list[tuple[int, int]] = []
        self.steps_alone = 0
        self.hook_seconds = 0.0
        self.dtype = ""
        self.width = 0
        self.probe_positions: list[int] = []
        self.probe_rows: list[torch.Tensor] = []
        self.probe_wanted = probe_sample(np.flatnonzero(self.wanted)) if self.codec == "hidden" else frozenset()
        self.sink: RowSink | None = None
        if rank == 0 and self.codec != "sanity":
            self.sink = RowSink(
                self.out,
                tokens=self.tokens,
                chunk_rows=min(spec["chunk_rows"], max(1, int(self.wanted.sum()))),
                kept=[ChunkFile(**chunk) for chunk in spec["kept"]],
                compare=spec["compare"],
                facts=self.codec == "logits",
            )
        self.nll_sum = 0.0
        self.nll_count = 0
        self.current: tuple[Step, torch.Tensor] | None = None
        self._enough: int = max(self.rows_per_gemm, min(_HELD_ROWS, spec["chunk_rows"]))
        self.held: list[tuple[torch.Tensor, np.ndarray[Any, Any]]] = []
        self.held_rows = 0
        self.streaming: StreamingScores | None = None
        self.not_streamed = ""
        self.events = Events(self.out) if rank == 0 else None

    def stream(self, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        """Score a step's rows, if that was asked for; a failure ends the scoring and not the capture."""
        if self.streaming is None:
            return
        try:
            self.streaming.push(rows, positions)
        except (AgentFailure, OSError, torch.OutOfMemoryError) as error:
            self.streaming, self.not_streamed = None, str(error)

    def hold(self, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> bool:
        """Keep hidden states for the head; whether there are enough of them now."""
        self.held.append((rows, positions))
        self.held_rows += len(positions)
        return self.held_rows >= self._enough

    def release(self, *, everything: bool) -> Iterator[tuple[torch.Tensor, np.ndarray[Any, Any]]]:
        """The held rows in blocks of `rows_per_gemm`; a last, shorter one only where `everything` is asked for."""
        if not self.held:
            return
        rows = self.held[0][0] if len(self.held) == 1 else torch.cat([rows for rows, _ in self.held])
        positions = np.concatenate([positions for _, positions in self.held])
        end = len(positions) if everything else len(positions) - len(positions) % self.rows_per_gemm
        # A copy: a slice would keep all the rows.
        self.held = [(rows[end:].clone(), positions[end:])] if end < len(positions) else []
        self.held_rows = len(positions) - end
        for start in range(0, end, self.rows_per_gemm):
            block = slice(start, min(start + self.rows_per_gemm, end))
            yield rows[block], positions[block]

    def own(self, steps: Sequence[Step]) -> list[Step]:
        """The captured request's share of a scheduler step: neighbours have prompts of other lengths."""
        return [step for step in steps if not self.neighbours or step.prompt_tokens in self.own_lengths]

    def note_step(self, position: int, count: int, *, requests: int) -> None:
        """Remember a step, and whether all neighbours were in it."""
        self.steps.append((position, count))
        self.steps_alone += requests <= self.neighbours

    def stop(self, *, flush: bool) -> AgentFailure | None:
        """End the writer; what went wrong in it, if anything did."""
        if self.events is not None:
            self.events.close()
        if self.sink is None:
            return None
        self.sink.close(flush=flush)
        return None if self.sink.error is None else failure_of(self.sink.error)


class _ForcingSampler:
    """Stands in front of the runner's sampler: shows the raw logits to the capture, then forces the recorded token."""

    def __init__(self, sampler: Any, worker: Any) -> None:
        self._sampler = sampler
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        capture = self._worker._suite_capture
        if capture is None or capture.path != "decode" or capture.current is None:
            return self._sampler(*args, **kwargs)
        logits = kwargs["logits"] if "logits" in kwargs else args[0]
        step, hidden = capture.current
        last = step.position + step.count - 1
        if last >= step.prompt_tokens and capture.wanted[last]:
            row = step.batch_index
            _keep_decode_row(capture, logits[row : row + 1], hidden[step.first_row : step.first_row + 1], last)
        output = self._sampler(*args, **kwargs)
        if last + 1 < len(capture.tokens):
            output.sampled_token_ids[step.batch_index].fill_(int(capture.tokens[last + 1]))
        return output


def _keep_decode_row(capture: _Capture, logits: torch.Tensor, hidden: torch.Tensor, position: int) -> None:
    if capture.codec == "hidden":
        _push(capture, hidden.clone(), np.array([position]))
    else:
        _push(capture, logits.clone(), np.array([position]), facts=True)
    if position in capture.probe_wanted and capture.rank == 0:
        capture.probe_positions.append(position)
        capture.probe_rows.append(logits.detach().to("cpu", copy=True))


def _push(capture: _Capture, rows: torch.Tensor, positions: np.ndarray[Any, Any], *, facts: bool = False) -> None:
    """Hand rows to the writer. On a GPU the `facts` of logits are computed there; on a CPU by the writer's thread."""
    capture.width = rows.shape[1]
    capture.dtype = str(rows.dtype).removeprefix("torch.")
    if capture.sink is not None:
        numbers = number_facts(rows) | {FINITE: finite_rows(rows)} if facts and rows.is_cuda else None
        capture.sink.push(rows, positions, numbers)


class CaptureWorker:
    """Mixed into vLLM's worker class; only names starting with `suite_` or `_suite_` are added."""

    _suite_capture: _Capture | None = None
    _suite_wrapped = False
    _suite_head: tuple[list[str], Head] | None = None

    def suite_receipt(self) -> dict[str, Any]:
        """What this rank's engine really uses; see `suite.agent.receipt`."""
        return worker_receipt(self)

    def suite_arm(self, spec: dict[str, Any]) -> None:
        """Start keeping rows. `spec` holds the job's path, stride, ranges, codec, tokens, out and the resume state."""
        from vllm.distributed import get_tensor_model_parallel_rank

        runner: Any = self.model_runner  # type: ignore[attr-defined]
        if not self._suite_wrapped:
            original = runner.sample_tokens

            def sample_tokens(*args: Any, **kwargs: Any) -> Any:
                state = runner.execute_model_state
                if self._suite_capture is not None and state is not None:
                    self._suite_see(runner, state)
                return original(*args, **kwargs)

            runner.sample_tokens = sample_tokens
            runner.sampler = _ForcingSampler(runner.sampler, self)
            self._suite_wrapped = True
        self._suite_capture = _Capture(spec, get_tensor_model_parallel_rank())
        if spec.get("score") is not None:
            self._suite_begin_streaming(self._suite_capture, spec)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _suite_begin_streaming(self, capture: _Capture, spec: dict[str, Any]) -> None:
        parts = describe_head(self.model_runner.get_model())  # type: ignore[attr-defined]
        if parts is None or self.vllm_config.parallel_config.tensor_parallel_size != 1:  # type: ignore[attr-defined]
            capture.not_streamed = "the whole head must lie on one device, unquantised"
            return
        device = str(self.device)  # type: ignore[attr-defined]
        head = head_of(parts)
        capture.streaming = StreamingScores(spec["score"], head, device, capture.rows_per_gemm, capture.tokens)

    def suite_disarm(self) -> dict[str, Any] | None:
        """Write what is left and stop keeping rows; rank 0 returns the chunks, steps and counts, or its failure."""
        capture, self._suite_capture = self._suite_capture, None
        assert capture is not None, "suite_arm comes first"
        self._suite_apply_head(capture, everything=True)
        failure = capture.stop(flush=True)
        if capture.rank != 0:
            return None
        if failure is not None:
            return {"failure": [failure.kind, failure.message, failure.hint]}
        result: dict[str, Any] = {
            "steps": capture.steps,
            "steps_alone": capture.steps_alone,
            "width": capture.width,
            "dtype": capture.dtype,
            "hook_seconds": capture.hook_seconds,
            "nll": [capture.nll_sum, capture.nll_count],
        }
        if capture.sink is not None:
            result |= {
                "chunks": [asdict(chunk) for chunk in capture.sink.chunks],
                "num_rows": capture.sink.num_rows,
                "non_finite_rows": capture.sink.non_finite_rows,
                "writer_seconds": capture.sink.busy_seconds,
                "writer_span_seconds": capture.sink.span_seconds,
            }
        if capture.streaming is not None:
            try:
                save_arrays(capture.out / STREAMED_NAME, capture.streaming.finish())
            except (AgentFailure, OSError, torch.OutOfMemoryError) as error:
                capture.not_streamed = str(error)
        result["not_streamed"] = capture.not_streamed
        self._suite_probe = (capture.probe_positions, capture.probe_rows)
        return result

    def suite_abandon(self) -> list[str] | None:
        """After an error: stop, and write no chunk that is not full; returns the writer's failure, if it had one."""
        capture, self._suite_capture = self._suite_capture, None
        failure = None if capture is None else capture.stop(flush=False)
        return None if failure is None else [failure.kind, failure.message, failure.hint]

    def suite_save_head(self, folder: str) -> dict[str, Any] | None:
        """Keep this rank's shard of the output head by hash; None where it cannot be replayed (quantised)."""
        parts = describe_head(self.model_runner.get_model())  # type: ignore[attr-defined]
        rank: int = self.rank  # type: ignore[attr-defined]
        if parts is None:
            return None
        sha256 = save_shard(Path(folder), rank, parts)
        self._suite_shard = {sha256: parts["weight"]}
        return {
            "sha256": sha256,
            "scale": parts["scale"],
            "soft_cap": parts["soft_cap"],
            "has_bias": parts["bias"] is not None,
        }

    def suite_replay_probe(
        self, heads: str, shards: list[str], chunk: list[str], rows_per_gemm: int
    ) -> dict[str, int] | None:
        """Rank 0: replay the live probe rows from their stored hidden states and count those equal bit for bit."""
        if self.rank != 0:  # type: ignore[attr-defined]
            return None
        from safetensors import safe_open

        positions, rows = self._suite_probe
        device = str(self.device)  # type: ignore[attr-defined]
        head = self._suite_load_head(heads, shards)
        hidden: dict[int, torch.Tensor] = {}
        wanted = set(positions)
        for path in chunk:
            with safe_open(path, framework="pt") as file:
                stored = file.get_tensor("positions").tolist()
                block = file.get_tensor("rows")
            hidden |= {p: block[i] for i, p in enumerate(stored) if p in wanted}
        if not positions:
            return {"rows": 0, "equal": 0}
        # In other company than live, as every replay of some of the rows: what a row's neighbours change is found here.
        replayed = head.logits(torch.stack([hidden[p] for p in positions]).to(device), rows_per_gemm).cpu()
        equal = sum(
            int(torch.equal(again.view(torch.uint8), live[0].contiguous().view(torch.uint8)))
            for again, live in zip(replayed, rows, strict=True)
        )
        return {"rows": len(positions), "equal": equal}

    def suite_vocab_size(self) -> int:
        """Columns of a logits row with the vocabulary padding cut."""
        parts = describe_head(self.model_runner.get_model())  # type: ignore[attr-defined]
        return int(parts["vocab_size"]) if parts else int(self.vllm_config.model_config.get_vocab_size())  # type: ignore[attr-defined]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def suite_fingerprint(
        self, folder: str, chunk: dict[str, Any], heads: str, shards: list[str], rows_per_gemm: int
    ) -> dict[str, Any]:
        """Rank 0: rewrite a hidden chunk with the facts of its rows' logits added; returns it as it is then."""
        if self.rank != 0:  # type: ignore[attr-defined]
            return {}
        device = str(self.device)  # type: ignore[attr-defined]
        path = Path(folder) / chunk["file"]
        head = self._suite_load_head(heads, shards)
        tensors, non_finite = fingerprint(load_file(str(path)), head, device, rows_per_gemm)
        return asdict(save_chunk(Path(folder), chunk["file"], tensors, non_finite_rows=non_finite))

    def _suite_load_head(self, heads: str, shards: list[str]) -> Head:
        if self._suite_head is None or self._suite_head[0] != shards:
            device = str(self.device)  # type: ignore[attr-defined]
            # On a CPU memory suffices, and the probe then tests the very copy that a replay will read.
            live = {} if device == "cpu" else self._suite_shard
            self._suite_head = (shards, load_head(Path(heads), shards, device, live=live))
        return self._suite_head[1]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _suite_see(self, runner: Any, state: Any) -> None:
        capture = self._suite_capture
        hidden = state.hidden_states
        if capture is None or hidden is None:  # a pipeline rank before the last has none
            return
        started = time.perf_counter()
        capture.current = None
        steps = list(read_steps(runner, state))
        for step in capture.own(steps):
            count = min(step.count, step.prompt_tokens - step.position)
            if capture.path == "decode":
                capture.current = (step, hidden)
                if step.position >= step.prompt_tokens:
                    capture.note_step(step.position, step.count, requests=len(steps))
                continue
            if count <= 0:
                continue
            capture.note_step(step.position, count, requests=len(steps))
            if capture.events is not None and capture.codec != "sanity":
                capture.events.emit("advance", count=count)
            local = np.flatnonzero(capture.wanted[step.position : step.position + count])
            if len(local):
                self._suite_keep(capture, _take(hidden, local + step.first_row), local + step.position)
        capture.hook_seconds += time.perf_counter() - started
        if capture.sink is not None and capture.sink.error is not None:
            raise capture.sink.error

    def _suite_keep(self, capture: _Capture, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        """Hidden states of a step go out in one piece, or wait for the head, which is applied to blocks of one size."""
        if capture.codec != "hidden":
            if capture.hold(rows, positions):
                self._suite_apply_head(capture, everything=False)
            return
        _push(capture, rows, positions)
        capture.stream(rows, positions)
        for start in range(0, len(positions), capture.rows_per_gemm):
            block = slice(start, start + capture.rows_per_gemm)
            if not capture.probe_wanted.isdisjoint(positions[block].tolist()):
                self._suite_logits(capture, rows[block], positions[block])

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _suite_apply_head(self, capture: _Capture, *, everything: bool) -> None:
        for rows, positions in capture.release(everything=everything):
            self._suite_logits(capture, rows, positions)

    def _suite_logits(self, capture: _Capture, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        model: Any = self.model_runner.model  # type: ignore[attr-defined]
        logits = model.compute_logits(pad_rows(rows, capture.rows_per_gemm))  # collective under TP
        if capture.rank != 0:
            return
        if capture.codec == "sanity":
            targets = torch.from_numpy(capture.tokens[positions + 1].astype(np.int64)).to(logits.device)
            exact = logits[: len(positions)].double()
            chosen = exact.gather(1, targets[:, None])[:, 0]
            capture.nll_sum += float((exact.logsumexp(dim=1) - chosen).sum())
            capture.nll_count += len(positions)
        elif capture.codec == "logits":
            _push(capture, logits[: len(positions)], positions, facts=True)
        else:
            for i, position in enumerate(positions.tolist()):
                if position in capture.probe_wanted:
                    capture.probe_positions.append(position)
                    capture.probe_rows.append(logits[i : i + 1].to("cpu", copy=True))


def _take(hidden: torch.Tensor, rows: np.ndarray[Any, Any]) -> torch.Tensor:
    """A copy of the given rows; evenly spaced ones are sliced, which needs no index on the device."""
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    if bool((np.diff(rows) == step).all()):
        return hidden[int(rows[0]) : int(rows[-1]) + 1 : step].clone()
    return hidden.index_select(0, torch.from_numpy(rows).to(hidden.device, non_blocking=True))
