"""The order of branching, on a stand-in engine: deepest history first, first tokens, then batches of what agreed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from suite.agent.branch import Branching, BranchJob, Request, Written

END = 2
TOKENS = list(range(100, 200))


class Engine:
    """Writes the last prompt token plus one, and ends after `length` tokens; counts what its cache lacks."""

    def __init__(self, *, length: int = 3, block: int = 4, wrong: frozenset[int] = frozenset()) -> None:
        self.length, self.block, self.wrong = length, block, wrong
        self.known: set[tuple[int, ...]] = set()
        self.batches: list[list[int]] = []
        self.computed = 0

    def __call__(self, requests: Sequence[Request]) -> list[Written]:
        self.batches.append([len(request.prompt) for request in requests])
        return [self.write(request) for request in requests]

    def write(self, request: Request) -> Written:
        prompt = tuple(request.prompt)
        blocks = [prompt[:end] for end in range(self.block, len(prompt), self.block)]
        cached = max((len(block) for block in blocks if block in self.known), default=0)
        self.known.update(blocks)
        self.computed += len(prompt) - cached
        first = prompt[-1] + (50 if len(prompt) - 1 in self.wrong else 1)
        ids = [first + i for i in range(min(self.length, request.max_tokens))]
        ended = len(ids) == self.length and request.max_tokens > 1
        return Written(
            token_ids=[*ids[:-1], END] if ended else ids, stop="end" if ended else "length", cached_tokens=cached
        )


def branching(engine: Engine, positions: Sequence[int], **changes: Any) -> Branching:
    values: dict[str, Any] = {
        "out": "",
        "model": "",
        "tokens": "",
        "tokens_sha256": "",
        "engine": {},
        "expect": {},
        "roots": [[p, TOKENS[p] + 1] for p in positions],
        "given": [],
        "end_token_ids": [END],
        "stop_texts": [],
        "max_new_tokens": 10,
        "batch_size": 2,
        "schema_version": 1,
    }
    job = BranchJob.from_json(values | changes)
    return Branching(job=job, tokens=TOKENS, context_tokens=100, generate=engine, advance=lambda _: None)


def test_the_longest_history_is_read_first_and_once() -> None:
    engine = Engine()
    work = branching(engine, [10, 30, 50, 70, 90])
    work.futures(work.roots())
    assert engine.batches == [[91], [11, 31], [51, 71], [12, 32], [52, 72], [92]]
    # The whole history once, then at most one block and a token for each further request.
    assert engine.computed <= 91 + 9 * (engine.block + 1)
    assert work.totals.prompt_tokens - work.totals.cached_tokens == engine.computed


def test_only_what_agrees_with_the_capture_is_continued() -> None:
    work = branching(Engine(wrong=frozenset({30})), [10, 30, 50], given=[[10, 7], [30, 7]])
    roots = work.roots()
    assert [root["token"] == root["winner"] for root in roots] == [True, False, True]
    assert [(f["position"], f["given"]) for f in work.futures(roots)] == [(10, False), (10, True), (50, False)]


def test_batch_and_order_are_told() -> None:
    work = branching(Engine(), [10, 30, 50], given=[[p, 7] for p in (10, 30, 50)])
    found = work.futures(work.roots())
    assert [(f["batch"], f["order"]) for f in found] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("changes", "position", "finish", "length"),
    [
        ({}, 10, "turn_end", 4),
        ({"max_new_tokens": 3}, 10, "length", 3),
        ({"max_new_tokens": 1}, 10, "length", 1),
        ({}, 96, "context", 3),
        ({}, 98, "context", 1),
    ],
)
def test_every_end_has_its_name(changes: dict[str, Any], position: int, finish: str, length: int) -> None:
    work = branching(Engine(), [position], **changes)
    (found,) = work.futures(work.roots())
    assert (found["finish"], len(found["token_ids"])) == (finish, length)


def test_a_turn_that_its_first_token_ends_is_not_continued() -> None:
    engine = Engine()
    work = branching(engine, [10], given=[[10, END]])
    _, found = work.futures(work.roots())
    assert (found["token_ids"], found["finish"]) == ([END], "turn_end")
    assert engine.batches == [[11], [12]]


def test_another_version_of_the_job_is_refused() -> None:
    with pytest.raises(ValueError, match="schema"):
        branching(Engine(), [10], schema_version=2)
