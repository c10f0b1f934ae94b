"""Chat requests as the OpenAI API has them: messages, requests with or without responses, fine-tuning sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suite.untyped import Json, as_dict, as_list
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source, messages_in
from suite.workload.importing.messages import SAMPLING_KEYS, assistant_message


class OpenAIJson:
    """JSON or JSONL."""

    name = "openai"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        return any(True for _ in _requests(source))

    def read(self, source: Source) -> Iterator[Draft]:
        """See `Importer`."""
        for request, response in _requests(source):
            messages = messages_in(request.get("messages"))
            choices = as_list(as_dict(response).get("choices"))
            if choices:
                messages = [*messages, assistant_message(as_dict(as_dict(choices[0]).get("message")))]
            tools = request.get("tools")
            yield Draft(
                messages=messages,
                generator="import of OpenAI-style JSON",
                tools=[t for t in tools if isinstance(t, dict)] if isinstance(tools, list) else _functions(request),
                sampling={k: request[k] for k in SAMPLING_KEYS if request.get(k) is not None} or None,
                template_kwargs=as_dict(request.get("chat_template_kwargs")),
            )


def _requests(source: Source) -> Iterator[tuple[Json, Any]]:
    """Requests with what was answered, wherever the file keeps the two."""
    values = [source.value] if source.value is not None else list(source.lines)
    if isinstance(source.value, list):
        values = [{"messages": source.value}] if messages_in(source.value) else list(source.value)
    for value in values:
        item = as_dict(value)
        if messages_in(item.get("messages")):
            if not _is_anthropic(item):
                yield item, item.get("response")
            continue
        for key in ("request", "body", "kwargs", "input"):
            inner = as_dict(item.get(key))
            if messages_in(inner.get("messages")) and not _is_anthropic(inner):
                response = as_dict(item.get("response") or item.get("output"))
                yield inner, response.get("body", response)
                break


def _is_anthropic(request: Json) -> bool:
    """Parts of kinds that only the Messages API has."""
    kinds = {"tool_use", "tool_result", "thinking"}
    return any(
        as_dict(part).get("type") in kinds
        for m in messages_in(request["messages"])
        for part in as_list(m.get("content"))
    )


def _functions(request: Json) -> list[Json] | None:
    functions = request.get("functions")
    if not isinstance(functions, list):
        return None
    return [{"type": "function", "function": f} for f in functions if isinstance(f, dict)]
