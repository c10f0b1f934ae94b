"""`suite workload roll`: a stack's own engine plays the agent in the simulated laboratory."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from suite.errors import InvalidInput
from suite.grade.tools import tools_of
from suite.observer import Observer
from suite.replay.conversation import Setting
from suite.replay.judge import tool_call_turns
from suite.replay.rendering import end_token_ids
from suite.replay.roll import MAX_TURNS, Rolled, roll
from suite.run.answering import answering, answering_lock
from suite.run.captures import Store
from suite.run.replays import prompt_after, rendered_format, template_of
from suite.run.stack import Stack
from suite.workload.session import load_session
from suite.workload.tokenizer import load_tokenizer


def roll_stack(
    stack: Stack,
    *,
    name: str,
    store: Store,
    max_new_tokens: int,
    max_tokens: int | None = None,
    tasks: int | None = None,
    max_turns: int = MAX_TURNS,
    observer: Observer,
    cancelled: threading.Event,
) -> Rolled:
    """Let a stack, under its measure settings with prefix caching, play the agent of its manifest's session.

    Args:
        stack: Usually the reference; its workload is a session of the laboratory.
        name: Of the new session.
        store: Its home takes what engine and host hand each other.
        max_new_tokens: Longest turn.
        max_tokens: Length of the session, never exceeded; None: what the engine's context holds.
        tasks: At most so many messages of the person.
        max_turns: Turns of the agent for each.
        observer: Progress.
        cancelled: Of the stack's runtime; set here on Ctrl-C.

    Raises:
        InvalidInput: the session is not of the laboratory, or cannot be rendered.
        RunFailed: the engine failed, or no task could be kept.
    """
    scripted = load_session(stack.manifest.workload_file)
    if max_tokens is not None and max_tokens > stack.lock.engine.max_model_len:
        raise InvalidInput(
            f"the engine's context holds {stack.lock.engine.max_model_len:,} tokens",
            where="--tokens",
            hint="raise engine.max_model_len, or ask for fewer",
        )
    tokenizer = load_tokenizer(stack.model_folder)
    definitions = [tool.model_dump(mode="json", exclude_none=True) for tool in scripted.tools]
    setting = Setting(
        session=scripted,
        tokenizer=tokenizer,
        chat_template=template_of(stack),
        tools=tools_of(definitions),
        format=rendered_format(stack, tokenizer, tool_call_turns(scripted)),
    )
    lock = answering_lock(stack.lock, "measure", prefix_caching=True)
    ends = end_token_ids(stack.model_folder, tokenizer, stack.rendered)
    with answering(
        stack, lock, stop_token_ids=ends, scratch=store.home / "replays", observer=observer, cancelled=cancelled
    ) as engine:

        def ask(history: Sequence[int]) -> tuple[tuple[int, ...], bool]:
            (found,) = engine.answer([prompt_after(stack, history, max_new_tokens)], batch_size=1)
            return found.token_ids, found.ended

        return roll(
            setting,
            scripted,
            ask,
            end_token_id=_end_of_turn(stack),
            name=name,
            note=f"Played greedily by {stack.label} (lock {stack.lock.digest[:12]}, vLLM {engine.engine}, prefix "
            f"caching on) with the person of {scripted.name}; the simulated laboratory answered.",
            max_tokens=max_tokens or engine.context_tokens,
            tasks=tasks,
            max_turns=max_turns,
            observer=observer,
        )


def _end_of_turn(stack: Stack) -> int:
    """The token that ends the assistant's turns in the stack's chat template."""
    return next(stack.rendered.token_ids[s.end - 1] for s in stack.rendered.spans if s.kind == "assistant_output")
