"""OpenAI JSON: a message, a response or a list with `tool_calls`, whose arguments are JSON inside a JSON string."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from suite.grade.call_object import ArgumentsView
from suite.grade.interface import Fault, RawCall, State
from suite.grade.json_reader import JsonReader, Path
from suite.grade.machine import MAX_CALLS, Machine
from suite.grade.source import Broken, Reading, Source, shown

_POSITIONS_DEPTH = 7
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_CALL_KEYS = frozenset({"id", "type", "function", "index"})


class OpenAIJson(Machine):
    """What a server made of the model's text, with the arguments still as the model wrote them."""

    name = "openai_json"

    def _read(self) -> Reading:
        source = self.source
        yield from source.space()
        start = source.position
        if not (yield from source.peek(1)):
            return
        view = _MessageView()
        reader = JsonReader(source, view, positions_depth=_POSITIONS_DEPTH)
        fault = None
        try:
            yield from reader.read()
            source.state = State.OUTSIDE
            yield from source.space()
            found = yield from source.peek(24)
            if found:
                raise source.broken(f"text after the JSON, {shown(found)}")
        except Broken as broken:
            fault = broken.fault
            source.state = State.OUTSIDE
        self._collect(reader, view, start, fault)

    def _collect(self, reader: JsonReader, view: _MessageView, start: int, fault: Fault | None) -> None:
        found = list(_find(reader.root))
        complete = fault is None or fault.message.startswith("text after the JSON")
        seen: set[str] = set()
        for number, (path, value) in enumerate(found):
            position = reader.positions.get(path, start)
            if number >= MAX_CALLS:
                self._stray_here(f"more than {MAX_CALLS} calls; the rest is not read", position=position)
                break
            call = self._open(position=position)
            last = number == len(found) - 1
            call.closed = complete or not last
            try:
                _fill(call, reader, view, path, value, seen)
            except Broken as broken:
                call.fail(broken.fault if call.closed or fault is None else fault)
            if not call.closed and fault is not None:
                call.fail(fault)
            call.end = self.source.position if last else reader.positions.get(found[number + 1][0])
        if fault is not None:
            if self._calls:
                self._calls[-1].fail(fault)
            else:
                self._stray_here(fault.message, position=fault.position)


def _find(root: Any) -> list[tuple[Path, Any]]:
    """Paths and values of all calls: in a list of calls, one call, a message, or a response's choices."""
    if isinstance(root, list):
        return [((index,), item) for index, item in enumerate(root)]
    if not isinstance(root, dict):
        return []
    if "function" in root:
        return [((), root)]
    found: list[tuple[Path, Any]] = []
    messages: list[tuple[Path, Any]] = [((), root)]
    choices = root.get("choices")
    for index, choice in enumerate(choices if isinstance(choices, list) else []):
        if isinstance(choice, dict):
            messages.append((("choices", index, "message"), choice.get("message")))
    for path, message in messages:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for index, item in enumerate(calls if isinstance(calls, list) else []):
            found.append(((*path, "tool_calls", index), item))
    return found


def _fill(call: RawCall, reader: JsonReader, view: _MessageView, path: Path, value: Any, seen: set[str]) -> None:
    def at(*keys: str) -> int:
        return reader.positions.get((*path, *keys), call.start)

    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict):
        raise Broken(Fault(position=at("function"), message="a call is an object with a 'function'"))
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(name, str) and name:
        call.name = name
        call.name_position = at("function", "name")
    inner = view.inner.get((*path, "function", "arguments"))
    if inner is not None:
        inner.finish()
        call.partial = inner.reader.root
        call.positions = inner.argument_positions()
    else:
        call.partial = arguments
    if unknown := sorted(set(value) - _CALL_KEYS):
        raise Broken(Fault(position=at(unknown[0]), message=f"a call has no key {unknown[0]!r}"))
    if value.get("type", "function") != "function":
        raise Broken(Fault(position=at("type"), message="the call's type is not 'function'"))
    identity = value.get("id")
    if "id" in value and (not isinstance(identity, str) or not identity):
        raise Broken(Fault(position=at("id"), message="the call's id is no text"))
    if call.name is None:
        raise Broken(Fault(position=at("function", "name"), message="the call has no name"))
    if inner is None:
        message = "arguments are an object; the format has JSON text" if arguments is not None else "no arguments"
        raise Broken(Fault(position=at("function", "arguments"), message=message))
    if inner.fault is not None:
        raise Broken(inner.fault)
    if not isinstance(inner.reader.root, dict):
        raise Broken(Fault(position=at("function", "arguments"), message="the arguments are no JSON object"))
    call.arguments = inner.reader.root
    if isinstance(identity, str):
        if identity in seen:
            raise Broken(Fault(position=at("id"), message=f"the id {identity!r} was used before"))
        seen.add(identity)


class _Inner:
    """JSON inside a JSON string, read along with it; knows where its characters stand outside."""

    def __init__(self) -> None:
        self.source = Source()
        self.source.state = State.ENVELOPE
        self.reader = JsonReader(self.source, ArgumentsView())
        self.fault: Fault | None = None
        self._pieces: list[tuple[int, int, str]] = []
        self._map: tuple[list[int], list[int]] = [], []
        self._length = 0
        self._reading = self._read()
        next(self._reading)

    def _read(self) -> Reading:
        yield
        try:
            yield from self.reader.read()
            yield from self.source.space()
            if (yield from self.source.peek(1)):
                raise self.source.broken("text after the arguments' JSON")
        except Broken as broken:
            self.fault = broken.fault
        while not self.source.ended:
            self.source.at = len(self.source.buffer)
            yield

    def feed(self, text: str, position: int, raw: str) -> None:
        self._pieces.append((self._length, position, raw))
        self._length += len(text)
        self.source.push(text)
        next(self._reading)

    def finish(self) -> None:
        """The string is at its end: positions become those of the output."""
        if self.source.ended:
            return
        self.source.ended = True
        for _ in self._reading:
            raise AssertionError("a source at its end asked for more")
        if self.fault is not None:
            self.fault = Fault(position=self._outer(self.fault.position), message=f"arguments: {self.fault.message}")

    def argument_positions(self) -> dict[str, int]:
        found = self.reader.positions.items()
        return {str(path[0]): self._outer(position) for path, position in found if len(path) == 1}

    def _outer(self, position: int) -> int:
        inner, outer = self._map
        if not inner:
            # Where each piece starts, and what follows each escape in it.
            for start, place, raw in self._pieces:
                inner.append(start)
                outer.append(place)
                shift = place - start
                for match in _ESCAPE.finditer(raw):
                    shift += len(match[0]) - 1
                    inner.append(place + match.end() - shift)
                    outer.append(place + match.end())
        index = bisect_right(inner, position) - 1
        return outer[index] + position - inner[index] if index >= 0 else position


class _MessageView:
    def __init__(self) -> None:
        self.inner: dict[Path, _Inner] = {}

    def state(self, path: Path, place: str) -> State:
        """See `json_reader.View`."""
        if path in self.inner and place == "value":
            return self.inner[path].source.state
        if path[-2:] == ("function", "name") and place == "value":
            return State.NAME
        if "function" in path or "tool_calls" in path or (path and isinstance(path[0], int)):
            return State.ENVELOPE
        return State.OUTSIDE

    def wants(self, path: Path) -> bool:
        """See `json_reader.View`."""
        if path[-2:] != ("function", "arguments") or len(self.inner) >= MAX_CALLS:
            return False
        self.inner[path] = _Inner()
        return True

    def characters(self, text: str, position: int, raw: str) -> None:
        """See `json_reader.View`."""
        next(reversed(self.inner.values())).feed(text, position, raw)
