"""Trajectories of benchmark agents: a `history` or `trajectory` whose items carry roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suite.untyped import Json, as_dict
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source, messages_in


class Trajectory:
    """JSON."""

    name = "trajectory"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        return bool(_history(source.value))

    def read(self, source: Source) -> Iterator[Draft]:
        """See `Importer`."""
        messages = [_message(item) for item in _history(source.value)]
        info = as_dict(as_dict(source.value).get("info"))
        name = info.get("instance_id") or as_dict(source.value).get("instance_id")
        yield Draft(messages=messages, generator="import of a trajectory", name=name if isinstance(name, str) else None)


def _history(value: Any) -> list[Json]:
    for key in ("history", "trajectory", "messages_history"):
        if messages := messages_in(as_dict(value).get(key)):
            return messages
    return []


def _message(item: Json) -> Json:
    kept = {k: item[k] for k in ("role", "content", "tool_calls", "tool_call_id") if item.get(k) is not None}
    reasoning = item.get("reasoning_content") or item.get("thought")
    if kept["role"] == "assistant" and isinstance(reasoning, str) and reasoning not in str(kept.get("content") or ""):
        kept["reasoning_content"] = reasoning
    ids = item.get("tool_call_ids")
    if kept["role"] == "tool" and "tool_call_id" not in kept and isinstance(ids, list) and ids:
        kept["tool_call_id"] = ids[0]
    return kept
