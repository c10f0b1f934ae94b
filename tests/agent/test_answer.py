"""Rounds of prompts, without vLLM: what the engine is asked, in which batches, and what comes back."""

import hashlib
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.agent import answer
from suite.agent.events import AgentFailure, Events

RANK = {"max_model_len": 64}


class Output:
    def __init__(self, token_ids: list[int], reason: str) -> None:
        self.token_ids, self.finish_reason = token_ids, reason
        self.outputs = [self]
        self.num_cached_tokens = 4


class Engine:
    """Writes the prompt's length and the seed, and ends where the length is even."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.parameters: list[Any] = []

    def collective_rpc(self, _: str) -> list[dict[str, Any]]:
        return [RANK]

    def generate(self, prompts: list[dict[str, Any]], parameters: Any, *, use_tqdm: bool) -> list[Output]:
        self.asked.append([len(prompt["prompt_token_ids"]) for prompt in prompts])
        self.parameters += parameters if isinstance(parameters, list) else []
        found = []
        for index, prompt in enumerate(prompts):
            length = len(prompt["prompt_token_ids"])
            seed = parameters[index].seed if isinstance(parameters, list) else None
            found.append(Output([length, seed or 0], "length" if length % 2 else "stop"))
        return found


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    found = Engine()
    fake = types.ModuleType("vllm")
    fake.SamplingParams = lambda **values: types.SimpleNamespace(**{"seed": None} | values)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", fake)
    monkeypatch.setattr(answer, "start_pinned", lambda *_: found)
    monkeypatch.setattr(answer, "effective_settings", lambda _: {"dtype": "bfloat16"})
    return found


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Events]:
    found = Events(tmp_path)
    yield found
    found.close()


def request(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    tokens = np.arange(20, dtype=np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    return {
        "schema_version": 1,
        "out": str(tmp_path),
        "model": "m",
        "tokens": str(tmp_path / "tokens.npy"),
        "tokens_sha256": hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest(),
        "engine": {},
        "expect": {"dtype": "bfloat16"},
        "stop_token_ids": [7],
    } | changes


def prompt(base: int, ids: list[int], **changes: Any) -> dict[str, Any]:
    return {"base": base, "ids": ids, "max_new_tokens": 5, "sampling": {}, "seed": None} | changes


def test_rounds_are_answered_in_order_and_in_batches_of_the_size_asked(
    tmp_path: Path, engine: Engine, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {
        "batch_size": 2,
        "warm_tokens": 9,
        "prompts": [prompt(3, []), prompt(4, [1, 2]), prompt(0, [5], sampling={"temperature": 0.7}, seed=3)],
    }
    (tmp_path / answer.round_name(0)).write_text(json.dumps(first))
    (tmp_path / answer.round_name(1)).write_text(json.dumps({"batch_size": 8, "warm_tokens": 0, "prompts": []}))

    original = answer._next_round

    def stop_after_two(out: Path, number: int) -> dict[str, Any] | None:
        if number == 2:
            (out / answer.END_NAME).touch()
        return original(out, number)

    monkeypatch.setattr(answer, "_next_round", stop_after_two)
    answer.run(request(tmp_path), events)
    assert engine.asked == [[9], [3, 6], [1]]
    assert [p.temperature for p in engine.parameters] == [0.0, 0.0, 0.7]
    assert all(p.stop_token_ids == [7] and p.ignore_eos and p.max_tokens == 5 for p in engine.parameters)
    ready = json.loads((tmp_path / answer.READY_NAME).read_text())
    assert (ready["context_tokens"], ready["effective"]) == (64, {"dtype": "bfloat16"})
    found = json.loads((tmp_path / answer.answers_name(0)).read_text())["answers"]
    assert found == [
        {"token_ids": [3, 0], "ended": False, "cached_tokens": 4},
        {"token_ids": [6, 0], "ended": True, "cached_tokens": 4},
        {"token_ids": [1, 3], "ended": False, "cached_tokens": 4},
    ]
    assert json.loads((tmp_path / answer.answers_name(1)).read_text()) == {"answers": []}


@pytest.mark.usefixtures("engine")
def test_another_setting_or_another_session_is_refused(tmp_path: Path, events: Events) -> None:
    with pytest.raises(AgentFailure, match="requested 'float16', effective 'bfloat16'"):
        answer.run(request(tmp_path, expect={"dtype": "float16"}), events)
    with pytest.raises(AgentFailure, match="SHA-256"):
        answer.run(request(tmp_path, tokens_sha256="0" * 64), events)
    with pytest.raises(ValueError, match="schema 2"):
        answer.run(request(tmp_path, schema_version=2), events)
