"""What a session must satisfy beyond its schema: the order of roles, call ids, arguments, marks."""

from __future__ import annotations

import json
from typing import Any, Protocol

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.workload.literals import occurrences
from suite.workload.session import AssistantMessage, Message, Session, SystemMessage, ToolMessage, UserMessage

RESERVED_TEMPLATE_KWARGS = frozenset(
    {"messages", "conversation", "tools", "documents", "chat_template", "tokenize", "add_generation_prompt",
     "continue_final_message", "padding", "truncation", "max_length", "return_tensors", "return_dict",
     "return_assistant_tokens_mask", "tokenizer_kwargs", "processor_kwargs", "strftime_now"}
)  # fmt: skip


class _Bad(Protocol):
    def __call__(self, place: str, message: str, hint: str | None = None) -> InvalidInput: ...


def check_session(session: Session, *, where: str) -> None:
    """Check what the schema alone cannot: order of roles, call ids, arguments, marks.

    Raises:
        InvalidInput: names the message concerned.
    """

    def bad(place: str, message: str, hint: str | None = None) -> InvalidInput:
        return InvalidInput(message, where=f"{where}: {place}", hint=hint)

    _check_text(session, where)
    names = [tool.function.name for tool in session.tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise bad(f"tools.{index}", f"the tool {name!r} is defined twice")
    open_calls: dict[str, str] = {}
    used: set[str] = set()
    for index, message in enumerate(session.messages):
        place = f"messages.{index}"
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                raise bad(
                    f"{place}.tool_call_id",
                    f"{message.tool_call_id!r} answers no open call",
                    "each tool message answers one call of the assistant message before it, once",
                )
            del open_calls[message.tool_call_id]
            continue
        if open_calls:
            first = next(iter(open_calls))
            raise bad(place, f"the call {first!r} has no answer before this message", "add its tool message")
        if isinstance(message, SystemMessage) and index:
            raise bad(place, "a system message stands only first")
        if isinstance(message, AssistantMessage):
            if not any(isinstance(earlier, UserMessage) for earlier in session.messages[:index]):
                raise bad(place, "the assistant speaks before any user message")
            open_calls = _check_assistant(message, place, where, used, bad)
    if open_calls:
        raise bad("messages", f"the call {next(iter(open_calls))!r} has no answer", "end after its tool message")
    if all(isinstance(message, SystemMessage) for message in session.messages):
        raise bad("messages", "the session is empty: it holds no user message")
    if reserved := sorted(RESERVED_TEMPLATE_KWARGS & set(session.chat_template_kwargs)):
        raise bad(f"chat_template_kwargs.{reserved[0]}", "this name is set by the renderer")
    _check_marks(session, bad)


def _check_text(session: Session, where: str) -> None:
    for index, message in enumerate(session.messages):
        _check_encodable(message.model_dump(mode="python"), f"{where}: messages.{index}")
    _check_encodable(session.model_dump(mode="python", exclude={"messages"}), f"{where}: session")


def _check_encodable(value: Any, where: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        hint = "write the character itself, or the pair of escapes"
        raise InvalidInput("a lone surrogate is not text", where=where, hint=hint) from error


def _check_assistant(message: AssistantMessage, place: str, where: str, used: set[str], bad: _Bad) -> dict[str, str]:
    calls = message.tool_calls or []
    if not calls and not (message.content or "").strip():
        raise bad(place, "the assistant says nothing", "give it content or tool_calls, or remove the message")
    for number, call in enumerate(calls):
        spot = f"{place}.tool_calls.{number}"
        if call.id in used:
            raise bad(f"{spot}.id", f"the call id {call.id!r} was used before", "call ids are unique in a session")
        used.add(call.id)
        arguments = _parse_arguments(call.function.arguments, where=f"{spot}.function.arguments", bad=bad)
        if not isinstance(arguments, dict):
            raise bad(f"{spot}.function.arguments", "the arguments are JSON, but not an object")
        _check_encodable(arguments, f"{where}: {spot}.function.arguments")
    return {call.id: call.function.name for call in calls}


def _parse_arguments(text: str, *, where: str, bad: _Bad) -> Any:
    """Parse JSON text inside a session; `bad` builds the error."""
    try:
        return strict_json(text.encode(), where=where)
    except InvalidInput as error:
        raise bad(where, error.message, "arguments are JSON text of an object") from error


def _check_marks(session: Session, bad: _Bad) -> None:
    for number, mark in enumerate(session.marks):
        if mark.message >= len(session.messages):
            raise bad(f"marks.{number}.message", f"there is no message {mark.message}")
        texts = message_texts(session.messages[mark.message])
        for literal in mark.must_survive:
            if not any(next(occurrences(literal, text), None) for text in texts):
                raise bad(
                    f"marks.{number}.must_survive",
                    f"{literal!r} does not stand in message {mark.message} as a whole word",
                    "marked literals are compared byte for byte",
                )


def message_texts(message: Message) -> list[str]:
    """Every text a message carries: content, reasoning, and the string values inside call arguments."""
    texts = [message.content or ""]
    if isinstance(message, AssistantMessage):
        texts.append(message.reasoning_content or "")
        for call in message.tool_calls or []:
            texts.append(call.function.name)
            texts.extend(_leaves(json.loads(call.function.arguments)))
    return texts


def _leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_leaves(item))]
    if isinstance(value, list):
        return [text for item in value for text in _leaves(item)]
    return [value if isinstance(value, str) else json.dumps(value)]
