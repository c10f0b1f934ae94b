"""A session as text for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from suite.workload.session import AssistantMessage, Session, ToolMessage


def transcript(session: Session) -> Iterator[str]:
    """Lines: one heading per message, then its reasoning, text and calls."""
    names: dict[str, str] = {}
    for index, message in enumerate(session.messages):
        suffix = ""
        if isinstance(message, ToolMessage):
            suffix = f" {names.get(message.tool_call_id, '?')} ({message.tool_call_id})"
        yield f"── {index} {message.role}{suffix}"
        if isinstance(message, AssistantMessage):
            if message.reasoning_content:
                yield from (f"  ~ {line}" for line in message.reasoning_content.splitlines())
            if message.content:
                yield from (f"  {line}" for line in message.content.splitlines())
            for call in message.tool_calls or []:
                names[call.id] = call.function.name
                arguments = json.loads(call.function.arguments)
                text = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
                yield f"  → {call.function.name}({text})"
        else:
            yield from (f"  {line}" for line in (message.content or "").splitlines())
        yield ""
