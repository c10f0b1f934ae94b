"""A stack that answers: its engine stays up in its runtime while rounds of prompts go in and answers come out."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.agent.answer import END_NAME, READY_NAME, SCHEMA_VERSION, answers_name, round_name
from suite.errors import RunFailed
from suite.files import canonical_json, read_json, write_atomic
from suite.manifest.engine import served_engine
from suite.manifest.lock import Lock
from suite.observer import Observer
from suite.replay.schema import SettingsName
from suite.run.captures import checked_inputs, write_tokens
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder
from suite.stack.engine_arguments import engine_arguments, expected_settings, stack_environment

_POLL_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What is asked once."""

    base: int
    """The first so many tokens of the recorded session."""
    ids: tuple[int, ...] = ()
    """Token ids after them."""
    max_new_tokens: int
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Empty: greedy."""
    seed: int | None = None

    @property
    def num_tokens(self) -> int:
        """Length of the prompt."""
        return self.base + len(self.ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """What came back."""

    token_ids: tuple[int, ...]
    """The end-of-turn token included, where one came."""
    ended: bool
    """By such a token, not by the cap or the context."""
    cached_tokens: int


class Answerer:
    """A running engine; see `answering`."""

    def __init__(self, folder: Path, worker: threading.Thread, failure: list[BaseException]) -> None:
        self._folder = folder
        self._worker = worker
        self._failure = failure
        self._rounds = 0
        ready = self._wait(folder / READY_NAME)
        self.effective: dict[str, Any] = ready["effective"]
        """Settings as read back from the engine."""
        self.engine: str = ready["vllm"]
        """Version of vLLM."""
        self.context_tokens: int = ready["context_tokens"]
        """Longest prompt and answer together."""

    def answer(self, prompts: Sequence[Prompt], *, batch_size: int, warm_tokens: int = 0) -> list[Continuation]:
        """Answer one round, in the order given and in batches of fixed composition.

        Args:
            prompts: Each shorter than the engine's context.
            batch_size: Prompts at work together.
            warm_tokens: So many tokens of the recorded session are read first, which fills the prefix cache.

        Raises:
            RunFailed: the engine failed.
        """
        asked = {
            "batch_size": batch_size,
            "warm_tokens": warm_tokens,
            "prompts": [
                {
                    "base": prompt.base,
                    "ids": list(prompt.ids),
                    "max_new_tokens": prompt.max_new_tokens,
                    "sampling": dict(prompt.sampling),
                    "seed": prompt.seed,
                }
                for prompt in prompts
            ],
        }
        write_atomic(self._folder / round_name(self._rounds), canonical_json(asked))
        found = self._wait(self._folder / answers_name(self._rounds))["answers"]
        self._rounds += 1
        assert len(found) == len(prompts)
        return [
            Continuation(token_ids=tuple(item["token_ids"]), ended=item["ended"], cached_tokens=item["cached_tokens"])
            for item in found
        ]

    def _wait(self, path: Path) -> dict[str, Any]:
        while not path.is_file():
            if not self._worker.is_alive() and not path.is_file():
                raise self._failure[0] if self._failure else RunFailed("the engine ended early", where=str(path.parent))
            time.sleep(_POLL_SECONDS)
        value: dict[str, Any] = read_json(path)
        return value


@contextmanager
def answering(
    stack: Stack,
    lock: Lock,
    *,
    stop_token_ids: Sequence[int],
    scratch: Path,
    observer: Observer,
    cancelled: threading.Event,
) -> Iterator[Answerer]:
    """Start the engine of `lock` in the runtime of `stack`, and end it afterwards.

    Args:
        stack: Gives model, tokens and runtime.
        lock: The stack's, with the engine settings to answer under (see `answering_lock`).
        stop_token_ids: Tokens that end an answer.
        scratch: Folder for what host and agent hand each other; removed afterwards, unless the engine fails.
        observer: Progress.
        cancelled: Of the stack's runtime; set here on Ctrl-C, so that the engine ends at once.

    Raises:
        RunFailed: the engine does not start, or takes other settings.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="answers-", dir=scratch))
    # A container's user may be another one.
    folder.chmod(0o777)
    (folder / "inputs").mkdir()
    write_tokens(folder / "inputs", stack)
    failure: list[BaseException] = []

    def work() -> None:
        try:
            stack.runtime.call(_call(stack, lock, folder, stop_token_ids), observer)
        except BaseException as error:  # noqa: BLE001 - carried to the asking thread
            failure.append(error)

    worker = threading.Thread(target=work, name="suite-answers", daemon=True)
    worker.start()
    failed = False
    try:
        yield Answerer(folder / "out", worker, failure)
    except RunFailed:
        failed = True
        raise
    except KeyboardInterrupt:
        cancelled.set()
        raise
    finally:
        (folder / "out").mkdir(exist_ok=True)
        (folder / "out" / END_NAME).touch()
        worker.join()
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
        observer.phase("")


def answering_lock(lock: Lock, settings: SettingsName, *, prefix_caching: bool) -> Lock:
    """The lock with the engine settings under which it answers.

    Args:
        lock: Of a stack.
        settings: `measure`: those of its captures; `serve`: those of its launch.
        prefix_caching: Switched on whatever the settings say; otherwise they decide.

    Raises:
        InvalidInput: the serve settings contradict each other.
    """
    engine = lock.engine
    if settings == "serve":
        engine = served_engine(lock.engine, lock.serve, where=lock.name)
    if prefix_caching:
        engine = engine.model_copy(update={"enable_prefix_caching": True})
    return lock.model_copy(update={"engine": engine})


def _call(stack: Stack, lock: Lock, folder: Path, stop_token_ids: Sequence[int]) -> AgentCall:
    def request(paths: Mapping[str, str]) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            **checked_inputs(lock, paths),
            "engine": engine_arguments(lock),
            "expect": expected_settings(lock),
            "stop_token_ids": list(stop_token_ids),
        }

    return AgentCall(
        command="answer",
        folders={
            "out": Folder(host=folder / "out", writable=True),
            "model": Folder(host=stack.model_folder),
            "inputs": Folder(host=folder / "inputs"),
        },
        request=request,
        environment=stack_environment(lock),
    )
