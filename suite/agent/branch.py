"""Continue many forks of one recorded history greedily, in one engine, sharing the history's KV cache.

The longest history is read first. With prefix caching on, every other request finds all but the last block of its own
history in the cache, so that its cost is that of the tokens it writes. First tokens come first: a fork is continued
only where this engine writes the token that the capture saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from suite.agent.engine import start_pinned, vllm_version
from suite.agent.events import Events, write_json
from suite.agent.job import require_schema
from suite.agent.recorded import read_tokens
from suite.agent.settings import effective_settings, require_effective

SCHEMA_VERSION = 1
RESULT_NAME = "futures.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchJob:
    """One stack's forks. Paths are as the stack sees them."""

    out: str
    model: str
    tokens: str
    """`.npy` file of int32 token ids."""
    tokens_sha256: str
    engine: dict[str, Any]
    """Keyword arguments of `vllm.LLM`; prefix caching is on."""
    expect: dict[str, Any]
    """Requested settings by their receipt name; a different effective value stops the run."""
    roots: tuple[tuple[int, int], ...]
    """Position and captured winner of each fork, by position. The history is all up to it, itself included."""
    given: tuple[tuple[int, int], ...]
    """Position and token of futures after a given token; written only where the root of that position agreed."""
    end_token_ids: tuple[int, ...]
    """Tokens that end a turn."""
    stop_texts: tuple[str, ...]
    """Closing marks of a tool envelope; the first to be completed ends a future."""
    max_new_tokens: int
    """Tokens of a future, its first included."""
    batch_size: int
    """Requests at work together; a batch ends before the next begins, so that its composition is known."""
    model_files: dict[str, str] = field(default_factory=dict)
    """Files of the checkpoint -> SHA-256 of the lock; hashed again before the engine reads them."""
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> BranchJob:
        """The job of a request.

        Raises:
            ValueError: another schema version.
            TypeError: an unknown or absent key.
        """
        require_schema(values, SCHEMA_VERSION, "branch job")
        changed = {
            "roots": tuple((int(p), int(t)) for p, t in values["roots"]),
            "given": tuple((int(p), int(t)) for p, t in values["given"]),
            "end_token_ids": tuple(values["end_token_ids"]),
            "stop_texts": tuple(values["stop_texts"]),
        }
        return cls(**(values | changed))


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A prompt, and how many tokens may follow it."""

    prompt: list[int]
    max_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What the engine wrote after one prompt."""

    token_ids: list[int]
    stop: str
    """`end` (an end token), `text` (a closing mark), or `length`."""
    cached_tokens: int


Generate = Callable[[Sequence[Request]], list[Written]]
"""Writes one batch, in order."""


@dataclass(kw_only=True, slots=True)
class Totals:
    """What a run cost, in tokens."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    new_tokens: int = 0


@dataclass(kw_only=True, slots=True)
class Branching:
    """The order of work, apart from the engine that does it."""

    job: BranchJob
    tokens: list[int]
    context_tokens: int
    """Longest sequence that the engine holds."""
    generate: Generate
    advance: Callable[[int], None]
    """Told how many futures or roots are done."""
    totals: Totals = field(default_factory=Totals)

    def roots(self) -> list[dict[str, Any]]:
        """The first token at every fork, deepest first, then in batches by position."""
        if not self.job.roots:
            return []
        *others, deepest = self.job.roots
        written = {deepest[0]: (0, 0, self._write([self._history(deepest[0])])[0])}
        for number, batch in enumerate(_batches(others, self.job.batch_size), start=1):
            done = self._write([self._history(position) for position, _ in batch])
            for order, ((position, _), found) in enumerate(zip(batch, done, strict=True)):
                written[position] = (number, order, found)
        return [
            {
                "position": position,
                "winner": winner,
                "token": written[position][2].token_ids[0],
                "batch": written[position][0],
                "order": written[position][1],
                "cached_tokens": written[position][2].cached_tokens,
            }
            for position, winner in self.job.roots
        ]

    def futures(self, roots: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Everything to be continued, by position; at one position the winner before a given token."""
        agreed = {root["position"] for root in roots if root["token"] == root["winner"]}
        wanted = [(p, t, False) for p, t in self.job.roots if p in agreed]
        wanted += [(p, t, True) for p, t in self.job.given if p in agreed]
        wanted.sort(key=lambda item: (item[0], item[2]))
        results = []
        for number, batch in enumerate(_batches(wanted, self.job.batch_size)):
            requests = [self._future(position, token) for position, token, _ in batch]
            done = iter(self._write([request for request in requests if request.max_tokens]))
            for order, ((position, token, given), request) in enumerate(zip(batch, requests, strict=True)):
                found = next(done) if request.max_tokens else _NOTHING
                results.append(
                    {
                        "position": position,
                        "given": given,
                        "token_ids": [token, *found.token_ids],
                        "finish": self._finish(request, found),
                        "batch": number,
                        "order": order,
                        "cached_tokens": found.cached_tokens,
                    }
                )
        return results

    def _history(self, position: int) -> Request:
        return Request(prompt=self.tokens[: position + 1], max_tokens=1)

    def _future(self, position: int, token: int) -> Request:
        prompt = [*self.tokens[: position + 1], token]
        ended = token in self.job.end_token_ids
        room = min(self.job.max_new_tokens - 1, self.context_tokens - len(prompt))
        return Request(prompt=prompt, max_tokens=0 if ended else room)

    def _finish(self, request: Request, found: Written) -> str:
        if request.prompt[-1] in self.job.end_token_ids:
            return "turn_end"
        if found.stop != "length":
            return {"end": "turn_end", "text": "envelope"}[found.stop]
        return "length" if request.max_tokens == self.job.max_new_tokens - 1 else "context"

    def _write(self, requests: list[Request]) -> list[Written]:
        done = self.generate(requests) if requests else []
        for request, found in zip(requests, done, strict=True):
            self.totals.prompt_tokens += len(request.prompt)
            self.totals.cached_tokens += found.cached_tokens
            self.totals.new_tokens += len(found.token_ids)
        self.advance(len(requests))
        return done


_NOTHING = Written(token_ids=[], stop="length", cached_tokens=0)


def run(request: dict[str, Any], events: Events) -> None:
    """Branch as the job `request` says; `futures.json` is written last.

    Raises:
        AgentFailure: with the kind of the first thing that makes a valid result impossible.
    """
    job = BranchJob.from_json(request)
    tokens = read_tokens(job.tokens, job.tokens_sha256)
    # Closing marks are texts, and only an engine with a tokenizer sees those.
    llm = start_pinned(job.model, job.model_files, job.engine | {"skip_tokenizer_init": False}, events)
    ranks = llm.collective_rpc("suite_receipt")
    effective = effective_settings(ranks)
    require_effective(
        job.expect,
        effective,
        asking="branching",
        hint="this stack cannot branch under its own settings: set `branches.policy: none`",
    )
    branching = Branching(
        job=job,
        tokens=tokens.tolist(),
        context_tokens=int(ranks[0]["max_model_len"]),
        generate=generator(llm, job),
        advance=lambda count: events.emit("advance", count=count),
    )
    events.phase("first tokens", total=len(job.roots), unit="forks")
    roots = branching.roots()
    events.done("first tokens")
    events.phase("futures", total=len(job.roots) + len(job.given), unit="futures")
    futures = branching.futures(roots)
    events.done("futures")
    write_json(
        Path(job.out) / RESULT_NAME,
        {
            "schema_version": SCHEMA_VERSION,
            "effective": effective,
            "vllm": vllm_version(),
            "roots": roots,
            "futures": futures,
            "totals": asdict(branching.totals),
            "seconds": {name: round(seconds, 3) for name, seconds in events.seconds.items()},
        },
    )


def generator(llm: Any, job: BranchJob) -> Generate:
    """How an engine writes the batches of a job."""
    from vllm import SamplingParams

    def generate(requests: Sequence[Request]) -> list[Written]:
        parameters = [
            SamplingParams(
                temperature=0.0,
                max_tokens=request.max_tokens,
                ignore_eos=True,
                stop_token_ids=list(job.end_token_ids),
                stop=list(job.stop_texts),
                include_stop_str_in_output=True,
                skip_special_tokens=False,
            )
            for request in requests
        ]
        prompts = [{"prompt_token_ids": request.prompt} for request in requests]
        return [_written(output) for output in llm.generate(prompts, parameters, use_tqdm=False)]

    return generate


def _written(output: Any) -> Written:
    found = output.outputs[0]
    stops = {True: "text", False: "end"}
    stop = stops[isinstance(found.stop_reason, str)] if found.finish_reason == "stop" else "length"
    return Written(token_ids=list(found.token_ids), stop=stop, cached_tokens=int(output.num_cached_tokens or 0))


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
