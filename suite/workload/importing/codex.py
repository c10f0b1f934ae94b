"""Rollout files of agents that keep the items of the Responses API, one a line."""

from __future__ import annotations

from collections.abc import Iterator

from suite.untyped import Json, as_dict
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source
from suite.workload.importing.messages import history_of_items

_ITEMS = {"message", "reasoning", "function_call", "function_call_output"}


class Rollout:
    """JSONL with `{"type": "response_item", "payload": …}` or the items themselves."""

    name = "rollout"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        items = _items(source)
        return any(item.get("type") in ("function_call", "reasoning", "function_call_output") for item in items)

    def read(self, source: Source) -> Iterator[Draft]:
        """See `Importer`."""
        meta = next((as_dict(x.get("payload")) for x in source.lines if x.get("type") == "session_meta"), {})
        instructions = meta.get("instructions")
        start: list[Json] = [{"role": "system", "content": instructions}] if isinstance(instructions, str) else []
        yield Draft(messages=[*start, *history_of_items(_items(source))], generator="import of a rollout file")


def _items(source: Source) -> list[Json]:
    found = []
    for line in source.lines:
        item = as_dict(line.get("payload")) if line.get("type") == "response_item" else line
        if item.get("type") in _ITEMS:
            found.append(item)
    return found
