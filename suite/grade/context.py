"""What a call is compared with: a text, a list of literals that must survive, or a session and the author's marks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.grade.literals import Context, listed
from suite.grade.tools import ToolSet, tools_of
from suite.workload.checks import message_texts
from suite.workload.session import AssistantMessage, Session, load_session, parse_session

MAX_CONTEXT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What is known of the step that an output answers."""

    context: Context
    right_commands: tuple[tuple[str, dict[str, Any]], ...] = ()
    tools: ToolSet | None = None
    """The session's own tools, where the context is one."""


def expected_of(session: Session, *, message: int | None = None) -> Expected:
    """The context of a session: of the assistant message at index `message`, or of a turn after its end.

    With a message, the texts before it are known; its marks say which literals must survive and which calls are right.

    Raises:
        InvalidInput: `message` is no assistant message.
    """
    if message is not None and not (
        0 <= message < len(session.messages) and isinstance(session.messages[message], AssistantMessage)
    ):
        raise InvalidInput(
            f"message {message} is no message of the assistant", where=session.name, hint="indices start at 0"
        )
    context = Context()
    definitions = [tool.model_dump(mode="json", exclude_none=True) for tool in session.tools]
    tools = tools_of(definitions, where=f"{session.name}: tools") if definitions else None
    if tools is not None:
        context.add_words(tools.words())
        for tool in session.tools:
            context.add_text(tool.function.description or "")
    for item in session.messages[:message]:
        for text in message_texts(item):
            context.add_text(text)
        for call in (item.tool_calls or []) if isinstance(item, AssistantMessage) else []:
            context.add_call(json.loads(call.function.arguments))
    marks = [mark for mark in session.marks if message is not None and mark.message == message]
    context.required = tuple(dict.fromkeys(literal for mark in marks for literal in mark.must_survive))
    for mark in marks:
        for command in mark.right_commands:
            # A literal that the author's own call brings along is right, and the likeliest source of one near it.
            context.add_call(command.arguments)
    right = tuple((command.name, command.arguments) for mark in marks for command in mark.right_commands)
    return Expected(context=context, right_commands=right, tools=tools)


def load_context(path: Path, *, message: int | None = None) -> Expected:
    """Read a context file: a session, a JSON list of literals that must survive, or any other text.

    Raises:
        InvalidInput: unreadable, too large, or JSON that is neither; `message` without a session.
    """
    if path.is_dir():
        return expected_of(load_session(path), message=message)
    try:
        if path.stat().st_size > MAX_CONTEXT_BYTES:
            raise InvalidInput(f"larger than {MAX_CONTEXT_BYTES >> 20} MiB", where=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    value: Any = None
    if data.lstrip()[:1] in (b"[", b"{"):
        try:
            value = strict_json(data, where=str(path))
        except InvalidInput:
            value = None
    if isinstance(value, Mapping) and "messages" in value:
        return expected_of(parse_session(data, where=str(path)), message=message)
    if message is not None:
        raise InvalidInput("only a session has messages", where=str(path), hint="leave --message out")
    if isinstance(value, list):
        if not all(isinstance(item, str) and item for item in value):
            raise InvalidInput(
                "a list that holds more than texts",
                where=str(path),
                hint='a JSON context is a list of literals, ["10.0.0.5", "5432"], or a session',
            )
        return Expected(context=listed(value))
    context = Context()
    context.add_text(data.decode("utf-8", errors="replace"))
    return Expected(context=context)
