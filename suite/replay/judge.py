"""Judging answers: each is read by the session's format and climbs the ladder with what the session knows there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suite.errors import InvalidInput
from suite.grade.context import Expected, expected_of
from suite.grade.detect import detect_format
from suite.grade.record import call_record
from suite.grade.tools import same_json
from suite.grade.verdict import Ending, Graded, grade, shown_text
from suite.replay.schema import Answer, EndingName, RecordedCall, ReplayTurn, Run
from suite.workload.session import AssistantMessage, Session


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a stack wrote, before it is judged."""

    message: int
    sample: int
    """0 for the greedy answer."""
    seed: int | None
    ending: EndingName
    text: str
    """Special tokens kept."""
    format: str
    """Grammar to read it by."""
    token_ids: tuple[int, ...] | None = None
    cached_tokens: int | None = None
    error: str | None = None
    reasoning_open: bool = False
    """The prompt ended inside the model's reasoning."""


def tool_call_turns(session: Session, *, limit: int | None = None) -> tuple[int, ...]:
    """Indices of the messages in which the assistant makes calls.

    Args:
        session: Any.
        limit: At most so many, spread evenly over the session; None for all.

    Raises:
        InvalidInput: there is none, or no tool is defined.
    """
    found = [i for i, m in enumerate(session.messages) if isinstance(m, AssistantMessage) and m.tool_calls]
    if not found or not session.tools:
        raise InvalidInput(
            "the session holds no tool call" if not found else "the session defines no tools",
            where=session.name,
            hint="turn replay needs a session in which an assistant calls tools; see docs/workloads.md",
        )
    if limit is None or limit >= len(found):
        return tuple(found)
    return tuple(found[i * len(found) // limit] for i in range(limit))


def recorded_calls(session: Session, message: int) -> tuple[RecordedCall, ...]:
    """The calls of one assistant message."""
    item = session.messages[message]
    assert isinstance(item, AssistantMessage)
    return tuple(
        RecordedCall(name=call.function.name, arguments=json.loads(call.function.arguments))
        for call in item.tool_calls or []
    )


def replay_turns(
    session: Session, messages: Sequence[int], prompt_tokens: Sequence[int] | None = None
) -> tuple[ReplayTurn, ...]:
    """The turns as the record names them."""
    lengths = prompt_tokens if prompt_tokens is not None else [None] * len(messages)
    return tuple(
        ReplayTurn(message=message, prompt_tokens=length, calls=recorded_calls(session, message))
        for message, length in zip(messages, lengths, strict=True)
    )


class Judge:
    """Grades answers of one session; what the session knows at a turn is found once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._message = -1
        self._expected: Expected | None = None

    def answer(self, written: Written) -> Answer:
        """One answer on the ladder; best called in order of the turns."""
        graded = self.graded(written)
        return Answer(
            message=written.message,
            sample=written.sample,
            seed=written.seed,
            ending=written.ending,
            error=None if written.error is None else shown_text(written.error),
            text=shown_text(written.text),
            token_ids=written.token_ids,
            cached_tokens=written.cached_tokens,
            format=graded.format,
            reasoning_open=written.reasoning_open,
            verdict=graded.verdict.value,
            calls=tuple(call_record(call) for call in graded.calls),
            same_calls=_same_calls(graded, recorded_calls(self._session, written.message)),
        )

    def graded(self, written: Written) -> Graded:
        """The whole grading of one answer."""
        expected = self.expected(written.message)
        return grade(
            written.text,
            format=written.format,
            tools=expected.tools,
            context=expected.context,
            right_commands=expected.right_commands,
            ending=Ending(written.ending),
            reasoning_open=written.reasoning_open,
        )

    def expected(self, message: int) -> Expected:
        """What the session knows at that turn."""
        if self._expected is None or self._message != message:
            self._message, self._expected = message, expected_of(self._session, message=message)
        return self._expected


def rejudged(runs: Sequence[Run], session: Session) -> tuple[Run, ...]:
    """The same answers, judged by this version of the ladder.

    Args:
        runs: Of one record. Their answers are gone through turn by turn, so that what is known there is found once.
        session: The one that was replayed.

    Raises:
        InvalidInput: an answer names an unknown format.
    """
    judge = Judge(session)
    again: list[list[Answer]] = [[] for _ in runs]
    for answers in zip(*(run.answers for run in runs), strict=True):
        for answer, done in zip(answers, again, strict=True):
            written = Written(
                message=answer.message,
                sample=answer.sample,
                seed=answer.seed,
                ending=answer.ending,
                text=answer.text,
                format=answer.format or "openai_json",
                token_ids=answer.token_ids,
                cached_tokens=answer.cached_tokens,
                error=answer.error,
                reasoning_open=answer.reasoning_open,
            )
            done.append(judge.answer(written).model_copy(update={"followed": answer.followed}))
    return tuple(run.model_copy(update={"answers": tuple(done)}) for run, done in zip(runs, again, strict=True))


def format_in(texts: Sequence[str]) -> str:
    """The one tool-call format in which these texts, each with calls, are written.

    Raises:
        InvalidInput: none of them shows a format, or they show several.
    """
    found = {detect_format(text) for text in texts} - {None}
    if len(found) != 1:
        names = ", ".join(sorted(str(name) for name in found)) or "none"
        raise InvalidInput(
            f"the tool-call format of the rendered session cannot be told (found: {names})", hint="say it with --format"
        )
    return str(found.pop())


def _same_calls(graded: Graded, recorded: Sequence[RecordedCall]) -> bool:
    def key(name: str | None, arguments: Any) -> str:
        return json.dumps([name, arguments], sort_keys=True)

    if not graded.calls or not all(call.parsed for call in graded.calls):
        return False
    ours = sorted(key(call.name, call.arguments) for call in graded.calls)
    return same_json(ours, sorted(key(call.name, call.arguments) for call in recorded))
