"""What the strict grammars say of a future: a state after each token, and the verdict on what the fork can change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from suite.branch.schema import STATE_LETTERS, Finish
from suite.grade.context import Expected, expected_of
from suite.grade.formats import make_grammar
from suite.grade.interface import Parsed, State
from suite.grade.literals import text_of
from suite.grade.record import CallRecord, VerdictName, call_record
from suite.grade.verdict import Ending, grade_parsed
from suite.workload.literals import occurrences
from suite.workload.session import AssistantMessage, Session

STOP_TEXTS: dict[str, tuple[str, ...]] = {
    "qwen_xml": ("</tool_call>",),
    "hermes": ("</tool_call>",),
    "glm": ("</tool_call>",),
    "deepseek_v3": ("<｜tool▁calls▁end｜>",),
    "deepseek_v31": ("<｜tool▁calls▁end｜>",),
    "deepseek_v32": ("</｜DSML｜function_calls>",),
    "kimi_k2": ("<|tool_calls_section_end|>",),
    "harmony": ("<|call|>",),
}
"""Marks that close the envelope of one call, or of all calls of a turn. Formats without one end with the turn."""

_ONE_CALL = frozenset({"qwen_xml", "hermes", "glm"})
_LETTERS = {State(state): letter for letter, state in STATE_LETTERS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """Of one future."""

    states: str
    """See `suite.branch.schema.Future.states`."""
    verdict: VerdictName
    calls: tuple[CallRecord, ...]


@dataclass(kw_only=True, slots=True)
class Grader:
    """Grades futures of one session; what the session knows at a turn is found once."""

    session: Session
    format: str | None
    """Of the session's own calls; None where it makes none of a known format."""
    _expected: dict[int, Expected] = field(default_factory=dict)

    def grade(self, turn_text: str, texts: Sequence[str], finish: Finish, *, turn: int, reasoning_open: bool) -> Grade:
        """Grade the calls of a turn that were not finished before the fork.

        Args:
            turn_text: What the assistant had written of the turn.
            texts: Of each token of the future.
            finish: Why it ends. One that ran into a limit, or whose closing mark is text inside a call, is cut off.
            turn: Index of the message.
            reasoning_open: The prompt ended inside the model's reasoning.
        """
        states, parsed = read_states(self.format, turn_text, texts, reasoning_open=reasoning_open)
        rests = finish == "turn_end" or (finish == "envelope" and states[-1:] in ("", _LETTERS[State.OUTSIDE]))
        if turn not in self._expected:
            self._expected[turn] = expected_of(self.session, message=turn)
        expected = self._expected[turn]
        calls = tuple(call for call in parsed.calls if call.end is None or call.end > len(turn_text))
        stray = parsed.stray if parsed.stray is not None and parsed.stray.position >= len(turn_text) else None
        required = self._required(expected, turn, len(parsed.calls) - len(calls))
        graded = grade_parsed(
            replace(parsed, calls=calls, stray=stray),
            tools=expected.tools,
            context=replace(expected.context, required=required),
            right_commands=expected.right_commands,
            ending=Ending.STOP if rests else Ending.TRUNCATED,
            text=turn_text + "".join(texts),
        )
        return Grade(states=states, verdict=graded.verdict.value, calls=tuple(map(call_record, graded.calls)))

    def _required(self, expected: Expected, turn: int, finished: int) -> tuple[str, ...]:
        """Of the literals that must survive, those that the session has in the calls which a future can still make."""
        message = self.session.messages[turn]
        recorded = (message.tool_calls or [])[finished:] if isinstance(message, AssistantMessage) else []
        if self.format in _ONE_CALL:
            recorded = recorded[:1]
        found = [text_of(json.loads(call.function.arguments)) for call in recorded]
        texts = [text for item in found for text in (*item.values, *item.keys)]
        return tuple(
            literal
            for literal in expected.context.required
            if any(next(occurrences(literal, text), None) is not None for text in texts)
        )


def read_states(
    tool_format: str | None, turn_text: str, texts: Sequence[str], *, reasoning_open: bool
) -> tuple[str, Parsed]:
    """The grammar's state after each of `texts`, as letters, and the whole turn as it was read.

    Without a format there are no states, and no calls.
    """
    if tool_format is None:
        return "", Parsed(format="", calls=(), stray=None, length=len(turn_text) + sum(map(len, texts)))
    grammar = make_grammar(tool_format, reasoning_open=reasoning_open)
    grammar.feed(turn_text)
    states = "".join(_LETTERS[grammar.feed(text)] for text in texts)
    return states, grammar.finish()
