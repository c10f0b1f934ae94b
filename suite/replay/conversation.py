"""A conversation that goes on with a model's own tokens: they stay as they are, and only what follows is rendered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from suite.errors import InvalidInput
from suite.grade.tools import ToolSet
from suite.grade.verdict import Ending, Graded, grade
from suite.replay.rendering import prompt_leaves_reasoning_open, text_of
from suite.workload.session import Message, Session
from suite.workload.template import Template
from suite.workload.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all conversations of one stack share."""

    session: Session
    """Gives tools and template arguments."""
    tokenizer: Tokenizer
    chat_template: str | None
    tools: ToolSet
    format: str
    """Tool-call format of the template."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One turn of the model, read."""

    text: str
    """Without its end token."""
    end: str
    """The end token's text."""
    graded: Graded
    calls: tuple[tuple[str, dict[str, Any]], ...]
    """Name and arguments of the calls, where every one of them is right by its format; empty otherwise."""
    before: str
    """Text before the first call."""


Respond = Callable[[str, dict[str, Any]], str]
"""A tool server: name and arguments to the text that the model reads."""

_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


class Conversation:
    """Messages and token ids that belong to each other.

    Args:
        setting: Shared facts.
        messages: The history, as session files write it.
        token_ids: Its ids with the generation prompt at their end; None to render them.
    """

    def __init__(
        self, setting: Setting, messages: Sequence[dict[str, Any]], token_ids: Sequence[int] | None = None
    ) -> None:
        self.setting = setting
        self.messages = [dict(message) for message in messages]
        self.num_calls = 0
        if token_ids is None:
            token_ids = setting.tokenizer.encode(self._text(self.messages, prompt=True))
        self.token_ids = list(token_ids)

    @property
    def reasoning_open(self) -> bool:
        """Whether the prompt ends inside the model's reasoning."""
        return prompt_leaves_reasoning_open(self.setting.tokenizer, self.token_ids)

    def read(self, token_ids: Sequence[int]) -> Said:
        """What the model wrote, its end token included."""
        end = text_of(self.setting.tokenizer, token_ids[-1:], after=token_ids[:-1] or self.token_ids)
        text = text_of(self.setting.tokenizer, token_ids[:-1], after=self.token_ids)
        graded = grade(
            text + end,
            format=self.setting.format,
            tools=self.setting.tools,
            ending=Ending.STOP,
            reasoning_open=self.reasoning_open,
        )
        whole = bool(graded.calls) and all(call.parsed and not call.in_reasoning for call in graded.calls)
        calls = tuple((str(call.name), call.arguments or {}) for call in graded.calls) if whole else ()
        return Said(
            text=text,
            end=end,
            graded=graded,
            calls=calls,
            before=text[: graded.calls[0].start].rstrip() if calls else text,
        )

    def reply(
        self, said: Said, respond: Respond, *, exact: bool = False
    ) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """The turn as a message, and what the world says to it; None where the model made no call.

        A call that cannot be read is answered as a harness would: with a message that says so.

        Args:
            said: The turn.
            respond: Answers calls that were read.
            exact: Calls become structured only where the template then writes them exactly as the model did; else the
                turn stays text, and the answers come in a user's message.
        """
        if not said.graded.calls and said.graded.stray is None:
            return None
        verbatim = {"role": "assistant", "content": said.text}
        if not said.calls:
            faults = [call.first_fault for call in said.graded.calls if call.first_fault] + [said.graded.stray]
            why = next((fault.message for fault in faults if fault), "it is not closed")
            return verbatim, [{"role": "user", "content": f"error: the tool call could not be read: {why}"}]
        message = self.structured(said)
        results = [respond(name, arguments) for name, arguments in said.calls]
        if exact and not self.gives_back(message, said):
            return verbatim, [{"role": "user", "content": "\n".join(results)}]
        return message, [
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(message["tool_calls"], results, strict=True)
        ]

    def structured(self, said: Said) -> dict[str, Any]:
        """The message of a turn whose calls could be read."""
        calls = []
        for name, arguments in said.calls:
            self.num_calls += 1
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            calls.append({"id": f"roll{self.num_calls:05d}", "type": "function", "function": function})
        message: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
        if said.before:
            message["content"] = said.before
        return message

    def gives_back(self, message: dict[str, Any], said: Said) -> bool:
        """Whether the template writes `message` exactly as the model did."""
        try:
            prompt = self._text(self.messages, prompt=True)
            return self._text([*self.messages, message]).startswith(f"{prompt}{said.text}{said.end}")
        except InvalidInput:
            return False

    def add(
        self, token_ids: Sequence[int], said: Said, message: dict[str, Any], following: Sequence[dict[str, Any]]
    ) -> None:
        """Take the model's turn, and what the world says to it, into the history.

        Raises:
            InvalidInput: the template does not write the following messages after the turn.
        """
        ended = self._text([*self.messages, message])
        whole = self._text([*self.messages, message, *following], prompt=True)
        # The turn's own end token is the last of its kind; what the template writes after it follows the model's ids.
        self._extend(token_ids, _after_end(whole, said.end, ended.count(said.end)), [message, *following])

    def finish(
        self, token_ids: Sequence[int], said: Said, message: dict[str, Any], following: Sequence[dict[str, Any]]
    ) -> None:
        """The same for the model's last turn: no prompt follows.

        Raises:
            InvalidInput: as `add`.
        """
        ended = self._text([*self.messages, message])
        whole = self._text([*self.messages, message, *following])
        self._extend(token_ids, _after_end(whole, said.end, ended.count(said.end)), [message, *following])

    def fork(self) -> Conversation:
        """An independent copy in the same state."""
        other = Conversation(self.setting, self.messages, self.token_ids)
        other.num_calls = self.num_calls
        return other

    def _extend(self, token_ids: Sequence[int], rest: str, messages: Sequence[dict[str, Any]]) -> None:
        self.messages += messages
        self.token_ids += [*token_ids, *self.setting.tokenizer.encode(rest)]

    def _text(self, messages: Sequence[dict[str, Any]], *, prompt: bool = False) -> str:
        template = Template(self.setting.tokenizer, self._session(messages), self.setting.chat_template)
        return template.apply(template.messages, generation_prompt=prompt)

    def _session(self, messages: Sequence[dict[str, Any]]) -> Session:
        parsed = _MESSAGES.validate_python(list(messages))
        return self.setting.session.model_copy(update={"messages": parsed, "marks": [], "recorded": None})


def _after_end(text: str, end: str, number: int) -> str:
    """What follows the `number`-th end token of a text."""
    position = -1
    for _ in range(number):
        position = text.find(end, position + 1)
        if position < 0:
            break
    if not end or number == 0 or position < 0:
        raise InvalidInput(
            "the chat template does not end the assistant's turn with the token that the model ended it with",
            where="chat_template",
        )
    return text[position + len(end) :]
