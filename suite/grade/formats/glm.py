"""GLM-4.5 and later: `<tool_call>NAME`, then `<arg_key>` and `<arg_value>` pairs, then `</tool_call>`."""

from __future__ import annotations

import re

from suite.grade.interface import Fault, RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH, Machine
from suite.grade.source import Broken, Reading, shown
from suite.grade.tagged import Tags, read_value

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_KEY, _KEY_CLOSE = "<arg_key>", "</arg_key>"
_VALUE, _VALUE_CLOSE = "<arg_value>", "</arg_value>"
_NAME = re.compile(r"[^\s<>{}\"\ud800-\udfff]*")
_KEY_NAME = re.compile(r"[^\r\n<>\ud800-\udfff]*")
_TAGS = Tags(close=_VALUE_CLOSE, followers=(_KEY, _CLOSE), next_argument=_KEY, call_close=_CLOSE, call_open=_OPEN)


class Glm(Machine):
    """Values are text, character for character. The tool's schema says what a value is."""

    name = "glm"

    def _read(self) -> Reading:
        while marker := (yield from self._outside(_OPEN, _CLOSE, _KEY)):
            if marker != _OPEN:
                self._stray_here(f"{marker} stands outside a call")
                self.source.skip(len(marker))
                continue
            call = self._open()
            self.source.skip(len(marker))
            yield from self._guarded(call, self._body, _CLOSE, _OPEN)

    def _body(self, call: RawCall) -> Reading:
        source = self.source
        source.state = State.NAME
        yield from source.space()
        call.name_position = source.position
        name = yield from source.run(_NAME, limit=MAX_NAME_LENGTH)
        if not name:
            found = yield from source.peek(24)
            raise source.broken(f"expected the name of the function, {shown(found)}")
        yield from self._after_name(call, name)
        arguments: dict[str, str] = {}
        call.partial = arguments
        while True:
            yield from source.space()
            position = source.position
            marker = yield from source.accept(_KEY, _CLOSE)
            if not marker:
                raise (yield from source.expected(_KEY, _CLOSE))
            if marker == _CLOSE:
                break
            source.state = State.ARGUMENT_NAME
            key = (yield from source.run(_KEY_NAME, limit=MAX_NAME_LENGTH)).strip()
            yield from source.expect(_KEY_CLOSE, after="the argument's name")
            source.state = State.ENVELOPE
            if not key:
                raise Broken(Fault(position=position, message="the argument has no name"))
            if key in arguments:
                raise Broken(Fault(position=position, message=f"the argument {key!r} stands twice"))
            yield from source.space()
            yield from source.expect(_VALUE, after=_KEY_CLOSE)
            yield from self._value(call, arguments, key)
        call.arguments = dict(arguments)
        call.untyped = frozenset(arguments)
        self._shut(call)

    def _after_name(self, call: RawCall, name: str) -> Reading:
        source = self.source
        spaced = yield from source.space()
        if not spaced:
            rest = yield from source.peek(1)
            if rest and rest != "<":
                raise source.broken(f"{rest.encode(errors='replace').decode()!r} cannot stand in a function's name")
        if (yield from source.peek(1)):
            # Only what stands behind a name shows that it is whole.
            call.name = name
            source.state = State.ENVELOPE

    def _value(self, call: RawCall, arguments: dict[str, str], key: str) -> Reading:
        source = self.source
        source.state = State.VALUE
        call.positions[key] = source.position
        keep: list[str] = []
        try:
            yield from read_value(source, call, _TAGS, keep)
        finally:
            arguments[key] = "".join(keep)
        source.state = State.ENVELOPE
