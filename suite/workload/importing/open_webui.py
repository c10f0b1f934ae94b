"""Chat exports of Open WebUI: a tree of messages, of which the shown branch is taken."""

from __future__ import annotations

from collections.abc import Iterator

from suite.untyped import Json, as_dict
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source


class OpenWebUi:
    """JSON: one chat or a list of them."""

    name = "open-webui"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        return any(True for _ in _chats(source))

    def read(self, source: Source) -> Iterator[Draft]:
        """See `Importer`."""
        for chat in _chats(source):
            history = chat["history"]
            messages: list[Json] = []
            current, seen = history.get("currentId"), set()
            while isinstance(current, str) and current in history["messages"] and current not in seen:
                seen.add(current)
                message = as_dict(history["messages"][current])
                messages.append(message)
                current = message.get("parentId")
            parameters = as_dict(chat.get("params"))
            system = chat.get("system") or parameters.get("system")
            start: list[Json] = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
            keys = ("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens")
            yield Draft(
                messages=[*start, *reversed(messages)],
                generator="import of Open WebUI",
                sampling={k: parameters[k] for k in keys if parameters.get(k) is not None} or None,
                name=chat.get("title") if isinstance(chat.get("title"), str) else None,
            )


def _chats(source: Source) -> Iterator[Json]:
    for value in source.value if isinstance(source.value, list) else [source.value]:
        chat = as_dict(as_dict(value).get("chat") or value)
        if isinstance(as_dict(chat.get("history")).get("messages"), dict):
            yield chat
