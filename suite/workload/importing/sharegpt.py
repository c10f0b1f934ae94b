"""ShareGPT files: `conversations` of `from` and `value`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from suite.untyped import Json, as_dict, as_list
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source

_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant",
    "bing": "assistant", "bard": "assistant",
    "assistant": "assistant", "model": "assistant", "system": "system", "tool": "tool", "function": "tool",
    "observation": "tool", "function_call": "call",
}  # fmt: skip


class ShareGpt:
    """JSON or JSONL."""

    name = "sharegpt"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        return any(True for _ in _records(source))

    def read(self, source: Source) -> Iterator[Draft]:
        """See `Importer`."""
        for record in _records(source):
            system = record.get("system")
            start: list[Json] = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
            yield Draft(
                messages=[*start, *_messages(record["conversations"])],
                generator="import of ShareGPT",
                tools=_tools(record.get("tools")),
                name=str(record["id"]) if "id" in record else None,
            )


def _records(source: Source) -> Iterator[Json]:
    values = source.value if isinstance(source.value, list) else [source.value] if source.value else source.lines
    for value in values:
        turns = as_list(as_dict(value).get("conversations"))
        if turns and all("from" in as_dict(turn) and "value" in as_dict(turn) for turn in turns):
            yield value


def _messages(turns: list[Json]) -> Iterator[Json]:
    for turn in turns:
        role = _ROLES.get(str(turn["from"]).lower(), str(turn["from"]))
        text = turn["value"] if isinstance(turn["value"], str) else json.dumps(turn["value"], ensure_ascii=False)
        if role != "call":
            yield {"role": role, "content": text}
            continue
        try:
            call = json.loads(text)
        except ValueError:
            call = None
        calls = call if isinstance(call, list) else [call]
        if all(isinstance(c, dict) and "name" in c for c in calls):
            yield {
                "role": "assistant",
                "tool_calls": [{"function": {"name": c["name"], "arguments": c.get("arguments", {})}} for c in calls],
            }
        else:
            yield {"role": "assistant", "content": text}


def _tools(value: Any) -> list[Json] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list) or not value:
        return None
    return [
        t if "function" in as_dict(t) else {"type": "function", "function": t} for t in value if isinstance(t, dict)
    ]
