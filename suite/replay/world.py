"""The simulated laboratory as the world: it answers the calls of a replayed turn, and only here may one recover.

Calls are answered in memory by `suite.workload.lab`; nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.errors import InvalidInput
from suite.grade.context import Expected, expected_of
from suite.grade.verdict import Ending, Verdict, grade, shown_text
from suite.replay.conversation import Conversation, Setting
from suite.replay.schema import Answer, Followed, Outcome, Step
from suite.workload.lab.lab import Lab
from suite.workload.session import Session
from suite.workload.synthesize import lab_at

MAX_STEPS = 8
"""Turns of the model after its first answer."""

Written = tuple[tuple[int, ...], bool]
"""Token ids of one turn, and whether an end token ended it."""
Ask = Callable[[Sequence[Sequence[int]]], list[Written]]
"""Writes one turn after each of several prompts, greedily."""


@dataclass(kw_only=True, slots=True)
class _Thread:
    answer: Answer
    conversation: Conversation
    lab: Lab
    expected: Expected
    steps: list[Step] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    outcome: Outcome | None = None


def follow(
    setting: Setting,
    session: Session,
    answers: Sequence[Answer],
    prompts: Mapping[int, Sequence[int]],
    ask: Ask,
    *,
    context_tokens: int,
    max_steps: int = MAX_STEPS,
) -> list[Answer]:
    """Let answers that do not survive go on in the laboratory.

    Args:
        setting: Tokenizer, template, tools.
        session: Written by the laboratory.
        answers: Each with token ids, all of one stack.
        prompts: Message to the ids after which its answers were written.
        ask: The stack that wrote them.
        context_tokens: Longest prompt that the stack takes.
        max_steps: Further turns allowed.

    Returns:
        The answers in their order, each with `followed`.

    Raises:
        InvalidInput: the session is not of the laboratory.
    """
    threads = [_start(setting, session, answer, prompts[answer.message]) for answer in answers]
    active = [thread for thread in threads if _go_on(thread, thread.answer.token_ids or (), context_tokens)]
    for step in range(max_steps):
        if not active:
            break
        written = ask([thread.conversation.token_ids for thread in active])
        remaining = []
        for thread, (token_ids, ended) in zip(active, written, strict=True):
            _take(thread, token_ids, ended)
            if thread.outcome is None and step + 1 < max_steps and _go_on(thread, token_ids, context_tokens):
                remaining.append(thread)
        active = remaining
    return [
        thread.answer.model_copy(
            update={"followed": Followed(steps=tuple(thread.steps), outcome=thread.outcome or "undecided")}
        )
        for thread in threads
    ]


def _start(setting: Setting, session: Session, answer: Answer, prompt: Sequence[int]) -> _Thread:
    history = [item.model_dump(mode="json", exclude_none=True) for item in session.messages[: answer.message]]
    thread = _Thread(
        answer=answer,
        conversation=Conversation(setting, history, prompt),
        lab=lab_at(session, answer.message),
        expected=expected_of(session, message=answer.message),
    )
    if answer.survives:
        thread.outcome = "survived"
    elif answer.ending != "stop":
        thread.outcome = "undecided"
    return thread


def _go_on(thread: _Thread, token_ids: Sequence[int], context_tokens: int) -> bool:
    """Take a turn into the history and let the laboratory answer it; False where the thread is at its end."""
    if thread.outcome is not None:
        return False
    conversation = thread.conversation

    def respond(name: str, arguments: dict[str, Any]) -> str:
        return thread.lab.call(name, arguments).content

    said = conversation.read(token_ids)
    reply = conversation.reply(said, respond)
    if reply is None:
        thread.outcome = "not recovered"
        return False
    message, following = reply
    try:
        conversation.add(token_ids, said, message, following)
    except InvalidInput:  # a template that cannot go on from such a turn
        thread.outcome = "undecided"
        return False
    thread.results = [str(item["content"]) for item in following]
    for result in thread.results:
        thread.expected.context.add_text(result)
    if len(conversation.token_ids) + 1 >= context_tokens:
        thread.outcome = "undecided"
        return False
    return True


def _take(thread: _Thread, token_ids: tuple[int, ...], ended: bool) -> None:
    conversation, expected = thread.conversation, thread.expected
    said = conversation.read(token_ids)
    text = said.text + said.end
    graded = grade(
        text,
        format=conversation.setting.format,
        tools=expected.tools,
        context=expected.context,
        right_commands=expected.right_commands,
        ending=Ending.STOP if ended else Ending.TRUNCATED,
        reasoning_open=conversation.reasoning_open,
    )
    thread.steps.append(
        Step(
            results=tuple(shown_text(result) for result in thread.results),
            text=shown_text(text),
            token_ids=token_ids,
            verdict=graded.verdict.value,
        )
    )
    if graded.verdict is Verdict.OK:
        thread.outcome = "recovered"
    elif not ended:
        thread.outcome = "undecided"
    elif graded.verdict is Verdict.NO_CALL:
        thread.outcome = "not recovered"
