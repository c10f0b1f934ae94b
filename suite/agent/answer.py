"""Answers: what a stack writes freely after prompts that the host hands over in rounds, while the engine stays up.

A round is a file in the shared folder, and so are its answers. The host decides on the next round from them, for
instance with what a simulated tool server has to say.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suite.agent.engine import start_pinned, vllm_version
from suite.agent.events import Events, write_json
from suite.agent.job import require_schema
from suite.agent.recorded import read_tokens
from suite.agent.settings import effective_settings, require_effective

SCHEMA_VERSION = 1
READY_NAME = "ready.json"
END_NAME = "end"
_POLL_SECONDS = 0.02


def round_name(number: int) -> str:
    """File of the prompts of one round."""
    return f"round-{number}.json"


def answers_name(number: int) -> str:
    """File of the answers of one round."""
    return f"answers-{number}.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerJob:
    """One engine, up for any number of rounds. Paths are as the stack sees them."""

    out: str
    model: str
    tokens: str
    """`.npy` file of int32 token ids: the recorded session, of which prompts are beginnings."""
    tokens_sha256: str
    engine: dict[str, Any]
    """Keyword arguments of `vllm.LLM`."""
    expect: dict[str, Any]
    """Requested settings by their receipt name; a different effective value stops the run."""
    stop_token_ids: tuple[int, ...]
    """Tokens that end an answer; each stays in it."""
    model_files: dict[str, str] = field(default_factory=dict)
    """Files of the checkpoint -> SHA-256 of the lock; hashed again before the engine reads them."""
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> AnswerJob:
        """The job of a request.

        Raises:
            ValueError: another schema version.
            TypeError: an unknown or absent key.
        """
        require_schema(values, SCHEMA_VERSION, "answer job")
        return cls(**(values | {"stop_token_ids": tuple(values["stop_token_ids"])}))


def run(request: dict[str, Any], events: Events) -> None:
    """Start the engine, then answer rounds until the host writes `end`.

    Raises:
        AgentFailure: with the kind of the first thing that makes a valid answer impossible.
    """
    job = AnswerJob.from_json(request)
    out = Path(job.out)
    tokens = read_tokens(job.tokens, job.tokens_sha256)
    llm = start_pinned(job.model, job.model_files, job.engine, events)
    ranks = llm.collective_rpc("suite_receipt")
    effective = effective_settings(ranks)
    require_effective(
        job.expect,
        effective,
        asking="the replay",
        hint="correct `engine` or `serve` in the manifest, or switch replay.prefix_caching off",
    )
    context_tokens = int(ranks[0]["max_model_len"])
    ready = {"schema_version": 1, "effective": effective, "vllm": vllm_version(), "context_tokens": context_tokens}
    write_json(out / READY_NAME, ready)
    number = 0
    while (found := _next_round(out, number)) is not None:
        answers = _answer(llm, tokens, found, job, events)
        write_json(out / answers_name(number), {"answers": answers})
        number += 1


def _next_round(out: Path, number: int) -> dict[str, Any] | None:
    """Wait for the host; None when it has no more to ask. If the host dies, so does this process."""
    while True:
        if (out / END_NAME).exists():
            return None
        if (path := out / round_name(number)).exists():
            value: dict[str, Any] = json.loads(path.read_text())
            return value
        time.sleep(_POLL_SECONDS)


def _answer(
    llm: Any, tokens: np.ndarray[Any, Any], asked: dict[str, Any], job: AnswerJob, events: Events
) -> list[dict[str, Any]]:
    """All answers of a round, in batches of fixed composition and in the order asked."""
    from vllm import SamplingParams

    if asked["warm_tokens"]:
        # The longest history first: every other prompt then finds its own in the cache.
        prompt = tokens[: asked["warm_tokens"]].tolist()
        llm.generate([{"prompt_token_ids": prompt}], SamplingParams(temperature=0.0, max_tokens=1), use_tqdm=False)
    results: list[dict[str, Any]] = []
    size = int(asked["batch_size"])
    for start in range(0, len(asked["prompts"]), size):
        batch: Sequence[dict[str, Any]] = asked["prompts"][start : start + size]
        prompts = [{"prompt_token_ids": tokens[: item["base"]].tolist() + item["ids"]} for item in batch]
        parameters = [
            SamplingParams(
                **(item["sampling"] or {"temperature": 0.0}),
                seed=item["seed"],
                max_tokens=item["max_new_tokens"],
                stop_token_ids=list(job.stop_token_ids),
                ignore_eos=True,
                detokenize=False,
            )
            for item in batch
        ]
        for output in llm.generate(prompts, parameters, use_tqdm=False):
            found = output.outputs[0]
            results.append(
                {
                    "token_ids": list(found.token_ids),
                    "ended": found.finish_reason == "stop",
                    "cached_tokens": int(output.num_cached_tokens or 0),
                }
            )
        events.emit("advance", count=len(batch))
    return results
