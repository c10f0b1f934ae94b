"""Mistral, both forms: `[TOOL_CALLS] [{…}, …]`, and since v11 `[TOOL_CALLS]name[ARGS]{…}` per call."""

from __future__ import annotations

import re

from suite.grade.call_object import fill, read_arguments
from suite.grade.interface import Fault, RawCall, State
from suite.grade.json_reader import JsonReader, Path
from suite.grade.machine import MAX_CALLS, MAX_NAME_LENGTH, Machine
from suite.grade.source import Broken, Reading, shown

_OPEN, _ARGS, _CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_NAME = re.compile(r"[A-Za-z0-9_.-]*")


class Mistral(Machine):
    """No mark closes a call: its JSON does, and nothing but the end may follow the calls."""

    name = "mistral"

    def _read(self) -> Reading:
        source = self.source
        while marker := (yield from self._outside(_OPEN, _ARGS)):
            if marker == _ARGS:
                self._stray_here("[ARGS] without [TOOL_CALLS]")
                source.skip(len(marker))
                continue
            yield from self._calls_from(source.position)

    def _calls_from(self, start: int) -> Reading:
        source = self.source
        source.skip(len(_OPEN))
        while True:
            call = self._open(position=start)
            try:
                yield from source.space()
                array = (yield from source.peek(1)) == "["
                yield from self._array(call) if array else self._named(call)
            except Broken as broken:
                self._calls[-1].fail(broken.fault)
                self._calls[-1].end = source.position
                return
            if not (yield from self._finish_message(self._calls[-1], _OPEN)):
                return
            start = source.position - len(_OPEN)

    def _named(self, call: RawCall) -> Reading:
        source = self.source
        source.state = State.NAME
        call.name_position = source.position
        name = yield from source.run(_NAME, limit=MAX_NAME_LENGTH)
        if not name:
            found = yield from source.peek(24)
            raise source.broken(f"expected a name or a JSON array after {_OPEN!r}, {shown(found)}")
        if (yield from source.peek(1)):
            # Only what stands behind a name shows that it is whole.
            call.name = name
        source.state = State.ENVELOPE
        if (yield from source.accept(_CALL_ID)):
            yield from source.run(_NAME, limit=MAX_NAME_LENGTH)
        if not (yield from source.accept(_ARGS)):
            yield from source.space()
            found = yield from source.peek(24)
            broken = source.broken(f"expected {_ARGS!r} after the name, {shown(found)}")
            if not found.startswith("{"):
                raise broken
            # The arguments are there without their mark: a fault, though one can see where the call ends.
            call.fail(broken.fault)
        yield from read_arguments(source, call)
        self._shut(call)

    def _array(self, first: RawCall) -> Reading:
        source = self.source
        start = source.position
        reader = JsonReader(source, _ArrayView(), positions_depth=4)
        fault = None
        try:
            yield from reader.read()
        except Broken as broken:
            fault = broken.fault
        source.state = State.ENVELOPE
        items = reader.root if isinstance(reader.root, list) else []
        for index, item in enumerate(items[:MAX_CALLS]):
            position = reader.positions.get((index,), start)
            call = self._open(position=position) if index else first
            last = index == len(items) - 1
            call.closed = fault is None or not last
            call.end = source.position if last else reader.positions.get((index + 1,), source.position)
            if last and fault is not None:
                # What a call lacks that was cut off is not its own fault.
                call.fail(fault)
            fill(call, reader, item, (index,), start=position, arguments_key="arguments", optional=("id",))
        if fault is not None:
            raise Broken(fault)
        if not items:
            raise Broken(Fault(position=start, message="the array holds no call"))
        source.state = State.OUTSIDE


class _ArrayView:
    def state(self, path: Path, place: str) -> State:
        """See `json_reader.View`."""
        if len(path) > 2 and path[1] == "arguments":
            if place == "key":
                return State.ARGUMENT_NAME
            return State.ENVELOPE if place == "between" and len(path) == 3 else State.VALUE
        return State.NAME if path[1:] == ("name",) and place == "value" else State.ENVELOPE

    def wants(self, path: Path) -> bool:
        """See `json_reader.View`."""
        return False

    def characters(self, text: str, position: int, raw: str) -> None:
        """See `json_reader.View`."""
