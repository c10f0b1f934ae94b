"""Which exchanges belong to one run of an agent: those whose histories continue each other. Pure, no file is touched.

An agent sends its whole history with every request. So a request continues an earlier one if it begins with that one's
history and answer. Requests with equal histories are attempts at the same turn; a history that goes on in two ways is a
fork, and each of its ends is a session.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.record.exchange import Exchange
from suite.untyped import Json, as_dict


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """One assistant turn of a thread that a recorded exchange produced."""

    message: int
    """Index of the answer in the thread's messages."""
    exchange: Exchange
    choice: int
    changed: bool = False
    """The client sent something else back than the server had answered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """One session: the longest history, the answer to it, and the exchanges that it grew from."""

    messages: tuple[Json, ...]
    last: Exchange
    """The exchange with the longest history."""
    answered: tuple[Answered, ...]
    attempts: tuple[Exchange, ...]
    """Other attempts at one of its turns: retries, and answers that were not used."""
    shared_with: int | None = None
    """Index of an earlier thread that begins with the same messages, if any."""
    num_shared: int = 0
    """How many messages the two share."""


@dataclass(kw_only=True, slots=True, eq=False)
class _Node:
    """One history that was asked for, with every attempt at it."""

    keys: tuple[str, ...]
    attempts: list[Exchange] = field(default_factory=list)
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)

    @property
    def order(self) -> int:
        return self.attempts[0].number


def stitch(exchanges: Iterable[Exchange]) -> tuple[Thread, ...]:
    """Threads in the order in which they began."""
    nodes: dict[str, _Node] = {}
    histories: dict[int, tuple[Json, ...]] = {}
    responses: dict[str, Exchange] = {}
    for exchange in exchanges:
        history = _whole_history(exchange, responses, histories)
        histories[exchange.number] = history
        if exchange.answer.response_id:
            responses[exchange.answer.response_id] = exchange
        if not history:
            continue
        chain = _chain(exchange, history)
        node = nodes.setdefault(chain[-1], _Node(keys=tuple(chain)))
        node.attempts.append(exchange)
    for node in nodes.values():
        node.parent = _parent(node, nodes)
        if node.parent is not None:
            node.parent.children.append(node)
    leaves = sorted((node for node in nodes.values() if not node.children), key=lambda n: (_path(n)[0].order, n.order))
    threads: list[Thread] = []
    ends: list[tuple[str, ...]] = []
    for leaf in leaves:
        thread = _thread(leaf, histories)
        if not thread.answered:
            continue
        shared = [(_common(keys, leaf.keys), -index) for index, keys in enumerate(ends)]
        num_shared, index = max(shared, default=(0, 0))
        # A system prompt alone is no common run.
        is_fork = num_shared > 1 and any(m.get("role") != "system" for m in thread.messages[:num_shared])
        threads.append(
            Thread(
                messages=thread.messages,
                last=thread.last,
                answered=thread.answered,
                attempts=thread.attempts,
                shared_with=-index if is_fork else None,
                num_shared=num_shared if is_fork else 0,
            )
        )
        ends.append(leaf.keys)
    return tuple(threads)


def _whole_history(
    exchange: Exchange, responses: dict[str, Exchange], histories: dict[int, tuple[Json, ...]]
) -> tuple[Json, ...]:
    """With what a `previous_response_id` stands for in front."""
    earlier = responses.get(exchange.previous_response_id or "")
    if earlier is None or not earlier.answer.choices:
        return exchange.history
    before = [*histories[earlier.number], earlier.answer.choices[0].message]
    own = list(exchange.history)
    if own and own[0].get("role") == "system":  # instructions are not carried over: the new ones replace the old
        before = [own.pop(0), *(m for m in before if m.get("role") != "system")]
    return (*before, *own)


def message_key(message: Json) -> str:
    """What two forms of one message have in common: role, text, calls. Reasoning is left out, since clients drop it."""
    calls = [
        [
            call.get("id"),
            as_dict(call.get("function")).get("name"),
            _arguments(as_dict(call.get("function")).get("arguments")),
        ]
        for call in message.get("tool_calls") or []
        if isinstance(call, dict)
    ]
    text = text_of(message.get("content"))
    # Clients and servers trim the ends of an assistant's text; nothing else of it changes.
    if message.get("role") == "assistant":
        text = text.strip()
    role = "system" if message.get("role") == "developer" else message.get("role")
    return json.dumps([role, text, calls, message.get("tool_call_id")], ensure_ascii=False, sort_keys=True)


def text_of(content: Any) -> str:
    """A message's text; parts are joined with line ends, as vLLM joins them for a template that takes text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            part if isinstance(part, str) else str(part.get("text") or "")
            for part in content
            if isinstance(part, dict | str)
        )
    return ""


def _arguments(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _link(key: str, message: str) -> str:
    return hashlib.sha256(f"{key}\0{message}".encode(errors="surrogatepass")).hexdigest()


def _chain(exchange: Exchange, history: Sequence[Json]) -> list[str]:
    """One key for every beginning of the history; equal keys, equal beginnings (and model)."""
    keys = []
    key = f"{exchange.model}"
    for message in history:
        key = _link(key, message_key(message))
        keys.append(key)
    return keys


def _parent(node: _Node, nodes: dict[str, _Node]) -> _Node | None:
    """The node with the longest history that this one begins with."""
    for key in reversed(node.keys[:-1]):
        if key in nodes:
            return nodes[key]
    return None


def _path(node: _Node) -> list[_Node]:
    path = [node]
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    return path[::-1]


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count


def _thread(leaf: _Node, histories: dict[int, tuple[Json, ...]]) -> Thread:
    path = _path(leaf)
    answered: list[Answered] = []
    attempts: list[Exchange] = []
    last = next((e for e in reversed(leaf.attempts) if e.complete and e.answer.choices), leaf.attempts[-1])
    messages = list(histories[last.number])
    for node in path[:-1]:
        index = len(node.keys)  # the message that answers this history
        reply = messages[index] if index < len(messages) else None
        if reply is None or reply.get("role") != "assistant":
            attempts += node.attempts
            continue
        used = _used(node.attempts, message_key(reply))
        exchange, choice, changed = used if used else (None, 0, False)
        if exchange is not None:
            answered.append(Answered(message=index, exchange=exchange, choice=choice, changed=changed))
        attempts += [e for e in node.attempts if e is not exchange]
    if last.complete and last.answer.choices:
        answered.append(Answered(message=len(messages), exchange=last, choice=0))
        messages.append(last.answer.choices[0].message)
    attempts += [e for e in leaf.attempts if e is not last]
    return Thread(messages=tuple(messages), last=last, answered=tuple(answered), attempts=tuple(attempts))


def _used(attempts: Sequence[Exchange], reply: str) -> tuple[Exchange, int, bool] | None:
    """Which attempt's answer the client went on with; the last whole one if it changed it."""
    for exchange in reversed(attempts):
        for index, choice in enumerate(exchange.answer.choices):
            if message_key(choice.message) == reply:
                return exchange, index, False
    for exchange in reversed(attempts):
        if exchange.answer.choices:
            return exchange, 0, True
    return None
