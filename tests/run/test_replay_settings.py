"""Which stack answers under which settings, and what is found again, with engines that say nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.manifest.lock import Lock
from suite.observer import SilentObserver
from suite.run import replays
from suite.run.answering import Continuation, Prompt
from suite.run.captures import Store
from suite.run.replays import ReplayPlan, replay_stacks
from suite.workload.render import render_with
from suite.workload.synthesize import build_session
from suite.workload.tokenizer import load_tokenizer
from tests.bundle.world import lock
from tests.workload.conftest import LAB, make_tokenizer


@pytest.fixture
def sides(tmp_path: Path) -> dict[Any, Any]:
    """A candidate that serves two answers at once, and a reference that is served as it is measured."""
    model = make_tokenizer(tmp_path / "model", ["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    session = build_session("two-calls", 5, ["ask-lookup", "ask-setting"])
    (tmp_path / "session.json").write_bytes(session.to_json())
    rendered = render_with(
        session, load_tokenizer(model), chat_template=(LAB / "chatml-tools.jinja").read_text(encoding="utf-8")
    )

    def stack(locked: Lock) -> Any:
        return SimpleNamespace(
            lock=locked,
            rendered=rendered,
            model_folder=model,
            label=locked.name,
            manifest=SimpleNamespace(workload_file=tmp_path / "session.json"),
        )

    return {
        "candidate": stack(lock("fast", serve={"max_num_seqs": 2})),
        "reference": stack(lock("plain", role="reference", kv_cache_dtype="auto")),
    }


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, bool]]:
    """Engines started: stack, answers at once, prefix caching."""
    found = []

    class Engine:
        engine = "0"
        context_tokens = 8192

        def __init__(self, size: int) -> None:
            self.effective = {"max_num_seqs": size}

        def answer(
            self, prompts: Sequence[Prompt], *, batch_size: int, warm_tokens: int = 0
        ) -> tuple[Continuation, ...]:
            assert batch_size == self.effective["max_num_seqs"]
            assert warm_tokens == max(prompt.base for prompt in prompts)
            return tuple(Continuation(token_ids=(7,), ended=True, cached_tokens=3) for _ in prompts)

    @contextmanager
    def answering(stack: Any, locked: Lock, **_: Any) -> Iterator[Engine]:
        found.append((stack.label, locked.engine.max_num_seqs, locked.engine.enable_prefix_caching))
        yield Engine(locked.engine.max_num_seqs)

    monkeypatch.setattr(replays, "answering", answering)
    return found


def test_both_stacks_answer_under_both_settings_and_equal_settings_once(
    sides: dict[Any, Any], started: list[tuple[str, int, bool]], tmp_path: Path
) -> None:
    plan = ReplayPlan(samples=1, settings=("measure", "serve"), temperature=0.7, max_new_tokens=8)
    store = Store(home=tmp_path / "home")

    def asked() -> Any:
        return replay_stacks(plan, sides, store=store, observer=SilentObserver(), cancelled=threading.Event())

    record = asked()
    assert [(run.side, run.settings, run.name, run.max_num_seqs) for run in record.runs] == [
        ("candidate", "measure", "fast", 1),
        ("reference", "measure", "plain", 1),
        ("candidate", "serve", "fast", 2),
        ("reference", "serve", "plain", 1),
    ]
    # The reference is served as it is measured: its answers are those it gave before.
    assert started == [("fast", 1, True), ("plain", 1, True), ("fast", 2, True)]
    assert len(list((tmp_path / "home" / "replays").glob("*.json"))) == 3
    assert [(line.settings, line.mode) for line in record.headlines] == [
        ("measure", "greedy"), ("measure", "sampled"), ("serve", "greedy"), ("serve", "sampled"),
    ]  # fmt: skip
    assert all(line.paired_turns == 2 for line in record.headlines)
    assert asked() == record
    assert len(started) == 3
