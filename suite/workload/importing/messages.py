"""The forms of messages that several formats share, brought to those of chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from suite.untyped import Json, as_dict, as_list
from suite.workload.session import Sampling

SAMPLING_KEYS = tuple(Sampling.model_fields)


def assistant_message(value: Mapping[str, Any]) -> Json:
    """The parts of an assistant message that a session keeps, under their usual names."""
    message: Json = {"role": "assistant", "content": value.get("content")}
    reasoning = value.get("reasoning_content") or value.get("reasoning")
    if reasoning:
        message["reasoning_content"] = reasoning
    if value.get("tool_calls"):
        message["tool_calls"] = [
            {"id": call.get("id"), "type": "function", "function": dict(as_dict(call.get("function")))}
            for call in map(as_dict, as_list(value["tool_calls"]))
        ]
    return message


def message_of_items(items: Iterable[Json]) -> Json:
    """One assistant message from the output items of the Responses API: text, reasoning, function calls."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[Json] = []
    for item in items:
        kind = item.get("type")
        if kind == "message":
            content += [part.get("text") or "" for part in map(as_dict, as_list(item.get("content")))]
        elif kind == "reasoning":
            parts = as_list(item.get("content")) or as_list(item.get("summary"))
            reasoning += [part.get("text") or "" for part in map(as_dict, parts)]
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls.append({"id": item.get("call_id") or item.get("id"), "type": "function", "function": function})
    message: Json = {"role": "assistant", "content": "".join(content)}
    if reasoning:
        message["reasoning_content"] = "\n".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    return message


def history_of_items(items: Iterable[Any]) -> list[Json]:
    """Chat messages from the items of the Responses API; what the assistant did in a row is one message."""
    messages: list[Json] = []
    pending: list[Json] = []
    for item in items:
        if not isinstance(item, dict):
            continue
        kind = item.get("type") or "message"
        if kind in ("reasoning", "function_call") or (kind == "message" and item.get("role") == "assistant"):
            if isinstance(item.get("content"), str):
                item = {**item, "content": [{"type": "output_text", "text": item["content"]}]}
            pending.append({**item, "type": kind})
            continue
        if pending:
            messages.append(message_of_items(pending))
            pending = []
        if kind == "function_call_output":
            output = item.get("output")
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": item.get("call_id"),
                    "content": output if isinstance(output, str) else json.dumps(output, ensure_ascii=False),
                }
            )
        elif kind == "message":
            messages.append({"role": item.get("role"), "content": item.get("content")})
    if pending:
        messages.append(message_of_items(pending))
    return messages
