"""Settings under which a stack answers, and an engine that fails, without an engine."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.agent.answer import READY_NAME, answers_name, round_name
from suite.errors import InvalidInput, RunFailed
from suite.files import read_json
from suite.observer import Observer, SilentObserver
from suite.run.answering import Prompt, answering, answering_lock
from suite.runtime.interface import AgentCall
from tests.bundle.world import lock


def test_measure_and_serve_settings_with_prefix_caching_switched_on() -> None:
    stack = lock("fp8", serve={"max_num_seqs": 8, "enforce_eager": False, "tool_call_parser": "hermes"})
    measured = answering_lock(stack, "measure", prefix_caching=True).engine
    assert (measured.max_num_seqs, measured.enforce_eager, measured.enable_prefix_caching) == (1, True, True)
    served = answering_lock(stack, "serve", prefix_caching=False).engine
    assert (served.max_num_seqs, served.enforce_eager, served.enable_prefix_caching) == (8, False, False)
    assert answering_lock(stack, "measure", prefix_caching=False) == stack


def test_serve_settings_that_contradict_each_other_are_told() -> None:
    stack = lock("fp8", serve={"cudagraph_mode": "FULL"})
    with pytest.raises(InvalidInput, match="contradict"):
        answering_lock(stack, "serve", prefix_caching=True)


class FakeRuntime:
    """An agent in this process that answers one round, then fails if it is to."""

    def __init__(self, failing: bool) -> None:
        self.failing = failing

    def call(self, call: AgentCall, _: Observer) -> None:
        out = call.folders["out"].host
        out.mkdir(exist_ok=True)
        request = call.request({name: str(folder.host) for name, folder in call.folders.items()})
        assert request["stop_token_ids"] == [7]
        from suite.agent.events import write_json

        write_json(out / READY_NAME, {"effective": {}, "vllm": "0", "context_tokens": 99})
        if self.failing:
            raise RunFailed("the engine died")
        while not (out / round_name(0)).is_file():
            time.sleep(0.01)
        asked = read_json(out / round_name(0))["prompts"]
        answers = [{"token_ids": [prompt["base"]], "ended": True, "cached_tokens": 1} for prompt in asked]
        write_json(out / answers_name(0), {"answers": answers})


def ask(tmp_path: Path, *, failing: bool) -> list[Any]:
    stack: Any = SimpleNamespace(
        runtime=FakeRuntime(failing), rendered=SimpleNamespace(token_ids=(1, 2, 3)), model_folder=tmp_path, label="x"
    )
    with answering(
        stack, lock("x"), stop_token_ids=(7,), scratch=tmp_path, observer=SilentObserver(), cancelled=threading.Event()
    ) as engine:
        assert engine.context_tokens == 99
        return engine.answer([Prompt(base=2, max_new_tokens=4), Prompt(base=3, max_new_tokens=4)], batch_size=1)


def test_answers_come_back_in_order_and_nothing_is_left_behind(tmp_path: Path) -> None:
    found = ask(tmp_path, failing=False)
    assert [(item.token_ids, item.ended, item.cached_tokens) for item in found] == [((2,), True, 1), ((3,), True, 1)]
    assert list(tmp_path.glob("answers-*")) == []


def test_an_engine_that_dies_is_told_and_its_log_stays(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="the engine died"):
        ask(tmp_path, failing=True)
    assert len(list(tmp_path.glob("answers-*/out"))) == 1
