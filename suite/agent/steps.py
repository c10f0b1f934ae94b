"""Read from either vLLM model runner which tokens a step holds, between `execute_model` and `sample_tokens`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One request's share of one scheduler step."""

    first_row: int
    """Its first row in the step's hidden states."""
    position: int
    """Token position of that row."""
    count: int
    """Rows (tokens) of this request in the step."""
    prompt_tokens: int
    """Length of the request's prompt."""
    batch_index: int
    """Its row in the step's sampled tokens."""


def read_steps(runner: Any, state: Any) -> Iterator[Step]:
    """Yield the steps of `state`, the runner's `execute_model_state`.

    Model Runner V2 keeps its batch in the state; V1 keeps it on the runner, with the scheduler's output in the state.
    """
    batch = getattr(state, "input_batch", None)
    if batch is not None:
        for i in range(batch.num_reqs):
            count = int(batch.num_scheduled_tokens[i])
            index = int(batch.idx_mapping_np[i])
            yield Step(
                first_row=int(batch.query_start_loc_np[i]),
                position=_computed_tokens_v2(batch, i, count),
                count=count,
                prompt_tokens=int(runner.req_states.prompt_len.np[index]),
                batch_index=i,
            )
        return
    batch = runner.input_batch
    scheduled = state.scheduler_output.num_scheduled_tokens
    for i, request in enumerate(batch.req_ids):
        yield Step(
            first_row=int(runner.query_start_loc.np[i]),
            position=int(batch.num_computed_tokens_cpu[i]),
            count=int(scheduled[request]),
            prompt_tokens=int(batch.num_prompt_tokens[i]),
            batch_index=i,
        )


def _computed_tokens_v2(batch: Any, i: int, count: int) -> int:
    """Tokens computed before this step: prefill counts are exact; past the prompt, the sequence length tells."""
    prefilled = int(batch.num_computed_prefill_tokens_np[i])
    lengths = getattr(batch, "seq_lens_cpu_upper_bound", None)
    if lengths is None:
        return prefilled
    return max(prefilled, int(lengths[i]) - count)
