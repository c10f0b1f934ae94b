"""Chat templates: turning a session's messages into text, also with sentinels around the parts to be found again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from suite.errors import InvalidInput
from suite.files import sha256_bytes
from suite.workload.session import AssistantMessage, Session
from suite.workload.tokenizer import Tokenizer

Part = Literal["content", "reasoning", "call"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One text of the session that can be found again in the rendered text."""

    message: int
    part: Part
    number: int = 0
    """Which call of the message, for `call`; the sentinels then stand around the tool's name."""


class Template:
    """One chat template of one tokenizer, applied to one session."""

    def __init__(self, tokenizer: Tokenizer, session: Session, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self._kwargs = dict(session.chat_template_kwargs)
        self._tools = [tool.model_dump(mode="json", exclude_none=True) for tool in session.tools] or None
        self.text = chat_template if chat_template is not None else self._stock()
        self.sha256 = sha256_bytes(self.text.encode())
        self.messages = messages_for_template(session)
        self._adapt_arguments()
        self.check_date()

    def _stock(self) -> str:
        try:
            return str(self._tokenizer.backend.get_chat_template(None, tools=self._tools))
        except ValueError as error:
            raise InvalidInput(
                "the tokenizer has no chat template",
                where=str(self._tokenizer.folder),
                hint="give one with --chat-template",
            ) from error

    def apply(
        self, messages: Sequence[Mapping[str, Any]], *, generation_prompt: bool = False, with_tools: bool = True
    ) -> str:
        """The text that the template makes of `messages`.

        Raises:
            InvalidInput: the template refuses them.
        """
        return self._render(messages, self.text, generation_prompt, with_tools)

    def _render(
        self, messages: Sequence[Mapping[str, Any]], text: str, generation_prompt: bool, with_tools: bool
    ) -> str:
        try:
            return str(
                self._tokenizer.backend.apply_chat_template(
                    list(messages),
                    tools=self._tools if with_tools else None,
                    chat_template=text,
                    add_generation_prompt=generation_prompt,
                    tokenize=False,
                    **self._kwargs,
                )
            )
        except Exception as error:  # templates raise what they like: jinja2's errors, TypeError, KeyError
            raise InvalidInput(
                f"the chat template refuses the session: {error}",
                where="chat_template",
                hint="use a template made for these messages (--chat-template); see docs/workloads.md",
            ) from error

    def check_date(self) -> None:
        """Refuse a template whose text would be another tomorrow.

        Raises:
            InvalidInput: the date of today stands in the text.
        """
        if "strftime_now" not in self.text:
            return
        # A macro of that name hides the function, so that the date can be chosen.
        macro = "{{%- macro strftime_now(format) -%}}{}{{%- endmacro %}}"
        fixed = [
            self._render(self.messages, macro.format(day) + self.text, False, True) for day in ("first", "second")
        ]  # fmt: skip
        if fixed[0] != fixed[1]:
            raise InvalidInput(
                "the chat template writes today's date into the text",
                where="chat_template",
                hint="set the date in chat_template_kwargs of the session (often date_string)",
            )

    def token_ids(self) -> tuple[int, ...]:
        """Ids of the whole session as the tokenizer's own chat method makes them."""
        result = self._tokenizer.backend.apply_chat_template(
            self.messages,
            tools=self._tools,
            chat_template=self.text,
            tokenize=True,
            return_dict=True,
            **self._kwargs,
        )
        return tuple(result["input_ids"])

    def ignores_tools(self) -> bool:
        """Whether the session defines tools and the text does not change without them."""
        if not self._tools:
            return False
        return self.apply(self.messages) == self.apply(self.messages, with_tools=False)

    def _adapt_arguments(self) -> None:
        # Serving engines hand arguments over as objects; a few templates join them to a string and need text.
        if not any(message.get("tool_calls") for message in self.messages):
            return
        try:
            self.apply(self.messages)
        except InvalidInput as error:
            as_text = [_with_text_arguments(message) for message in self.messages]
            try:
                self.apply(as_text)
            except InvalidInput:
                raise error from None
            self.messages = as_text


def messages_for_template(session: Session) -> list[dict[str, Any]]:
    """Messages as serving engines hand them to a template: arguments as objects, absent content as empty text."""
    result: list[dict[str, Any]] = []
    for message in session.messages:
        item = message.model_dump(mode="json", exclude_none=True)
        if isinstance(message, AssistantMessage):
            item["content"] = message.content or ""
            if message.reasoning_content is not None:
                item["reasoning"] = message.reasoning_content
            for call in item.get("tool_calls", []):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
            if not item.get("tool_calls"):
                item.pop("tool_calls", None)
        result.append(item)
    return result


def _with_text_arguments(message: dict[str, Any]) -> dict[str, Any]:
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


class Sentinels:
    """Marks made of private-use characters that no text of the session contains.

    They stand inside the leading and trailing white space of a text, so that a template that trims it does the
    same with and without them. A text that is only white space gets none.
    """

    # Two blocks, so that a session that uses one of them can still be rendered.
    _BASES = (0xE000, 0xF0000)

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        used = set(json.dumps(list(messages), ensure_ascii=False))
        free = [base for base in self._BASES if not any(chr(base + offset) in used for offset in range(18))]
        if not free:
            raise InvalidInput(
                "the text uses both private-use blocks that rendering needs", where="messages", hint="remove U+E000…"
            )
        self._base = free[0]
        digits = f"{chr(self._base + 2)}-{chr(self._base + 17)}"
        self._pattern = re.compile(f"{chr(self._base)}([{digits}]+){chr(self._base + 1)}")
        self.pieces: list[Piece] = []
        self.messages = [self._mark(index, message) for index, message in enumerate(messages)]

    def _sentinel(self, number: int) -> str:
        digits = "".join(chr(self._base + 2 + int(digit, 16)) for digit in f"{number:x}")
        return f"{chr(self._base)}{digits}{chr(self._base + 1)}"

    def _wrap(self, text: str, piece: Piece) -> str:
        core = text.strip()
        if not core:
            return text
        start = text.index(core)
        number = 2 * len(self.pieces)
        self.pieces.append(piece)
        opened, closed = self._sentinel(number), self._sentinel(number + 1)
        return f"{text[:start]}{opened}{core}{closed}{text[start + len(core) :]}"

    def _mark(self, index: int, message: Mapping[str, Any]) -> dict[str, Any]:
        marked = dict(message)
        if "reasoning_content" in marked:
            text = self._wrap(marked["reasoning_content"], Piece(message=index, part="reasoning"))
            marked["reasoning_content"] = marked["reasoning"] = text
        marked["content"] = self._wrap(marked["content"], Piece(message=index, part="content"))
        if "tool_calls" in marked:
            marked["tool_calls"] = [
                {**call, "function": self._mark_call(call["function"], index, number)}
                for number, call in enumerate(marked["tool_calls"])
            ]
        return marked

    def _mark_call(self, function: Mapping[str, Any], message: int, number: int) -> dict[str, Any]:
        piece = Piece(message=message, part="call", number=number)
        return {**function, "name": self._wrap(function["name"], piece)}

    def split(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """The text without sentinels, and `(sentinel number, character position)` in order of position."""
        clean: list[str] = []
        found: list[tuple[int, int]] = []
        last = length = 0
        for match in self._pattern.finditer(text):
            part = text[last : match.start()]
            clean.append(part)
            length += len(part)
            found.append((int("".join(f"{ord(c) - self._base - 2:x}" for c in match[1]), 16), length))
            last = match.end()
        clean.append(text[last:])
        return "".join(clean), found
