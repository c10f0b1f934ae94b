"""Conversations in the form of the Messages API: requests, message lists of editor agents, and JSONL transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from suite.untyped import Json, as_dict, as_list
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source, messages_in

_KINDS = {"tool_use", "tool_result", "thinking"}


class AnthropicJson:
    """`{"messages": …}`, a bare list, or one object a line with a `message` in it."""

    name = "anthropic"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        return any(
            as_dict(part).get("type") in _KINDS
            for _, messages in _conversations(source)
            for message in messages
            for part in as_list(message.get("content"))
        )

    def read(self, source: Source) -> Iterator[Draft]:
        """See `Importer`."""
        for request, messages in _conversations(source):
            system = request.get("system")
            start: list[Json] = [{"role": "system", "content": system}] if system else []
            tools = request.get("tools")
            yield Draft(
                messages=[*start, *chat_messages(messages)],
                generator="import of Messages-API JSON",
                tools=[_tool(as_dict(t)) for t in tools] if isinstance(tools, list) else None,
                sampling={k: request[k] for k in ("temperature", "top_p", "top_k", "max_tokens") if k in request}
                or None,
            )


def _conversations(source: Source) -> Iterator[tuple[Json, list[Json]]]:
    if source.lines:
        by_chain: dict[str, list[Json]] = {}
        for line in source.lines:
            message = as_dict(line.get("message"))
            if isinstance(message.get("role"), str) and not line.get("isMeta"):
                kind = "side" if line.get("isSidechain") else "main"
                by_chain.setdefault(f"{line.get('sessionId')} {kind}", []).append(message)
        for messages in by_chain.values():
            yield {}, _joined(messages)
        return
    if messages := messages_in(source.value):
        yield {}, messages
    elif messages := messages_in(as_dict(source.value).get("messages")):
        yield as_dict(source.value), messages


def _joined(messages: Iterable[Json]) -> list[Json]:
    """Transcripts write one answer as several lines with one id."""
    result: list[Json] = []
    for message in messages:
        own = message.get("id")
        if result and own is not None and result[-1].get("id") == own:
            result[-1] = {**result[-1], "content": [*as_list(result[-1]["content"]), *as_list(message.get("content"))]}
        else:
            result.append(message)
    return result


def _tool(tool: Json) -> Json:
    function = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("input_schema"),
    }
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}}


def chat_messages(messages: Iterable[Json]) -> Iterator[Json]:
    """The same as chat completions: results become messages of their own, before what the user says beside them."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield {"role": message.get("role"), "content": content}
            continue
        parts = [as_dict(part) for part in as_list(content)]
        if message.get("role") == "assistant":
            calls = [
                {
                    "id": part.get("id"),
                    "function": {
                        "name": part.get("name"),
                        "arguments": json.dumps(part.get("input") or {}, ensure_ascii=False),
                    },
                }
                for part in parts
                if part.get("type") == "tool_use"
            ]
            thinking = "\n".join(str(p.get("thinking") or "") for p in parts if p.get("type") == "thinking")
            text = "".join(str(p.get("text") or "") for p in parts if p.get("type") == "text")
            yield {"role": "assistant", "content": text, "reasoning_content": thinking or None, "tool_calls": calls}
            continue
        for part in parts:
            if part.get("type") == "tool_result":
                yield {"role": "tool", "tool_call_id": part.get("tool_use_id"), "content": _result(part.get("content"))}
        rest = [part for part in parts if part.get("type") != "tool_result"]
        if rest:
            yield {"role": "user", "content": rest}


def _result(content: Any) -> Any:
    return content if content is not None else ""
