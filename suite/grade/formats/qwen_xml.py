"""Qwen XML (Qwen3-Coder, Qwen3.5 and later): `<tool_call>`, `<function=N>`, `<parameter=P>`, each closed."""

from __future__ import annotations

import re
from collections.abc import Generator

from suite.grade.interface import Fault, RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH, Machine
from suite.grade.source import Broken, Reading
from suite.grade.tagged import Tags, read_value

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_CLOSE = "<function=", "</function>"
_PARAMETER, _PARAMETER_CLOSE = "<parameter=", "</parameter>"
_NAME = re.compile(r"[^\s<>\ud800-\udfff]*")
_TAGS = Tags(
    close=_PARAMETER_CLOSE,
    followers=(_PARAMETER, _FUNCTION_CLOSE, _FUNCTION, _CLOSE, _OPEN),
    next_argument=_PARAMETER,
    call_close=_CLOSE,
    call_open=_OPEN,
)


class QwenXml(Machine):
    """Values are text; one newline on each side belongs to the tags. The tool's schema says what a value is."""

    name = "qwen_xml"

    def _read(self) -> Reading:
        while marker := (yield from self._outside(_OPEN, _FUNCTION, _CLOSE, _FUNCTION_CLOSE)):
            if marker in (_CLOSE, _FUNCTION_CLOSE):
                self._stray_here(f"{marker} closes nothing")
                self.source.skip(len(marker))
                continue
            call = self._open()
            if marker == _FUNCTION:
                call.fail(Fault(position=call.start, message="<function= stands outside <tool_call>"))
                yield from self._guarded(call, self._unwrapped, _FUNCTION_CLOSE, _OPEN, _FUNCTION)
                continue
            self.source.skip(len(marker))
            yield from self._guarded(call, self._body, _CLOSE, _OPEN)

    def _body(self, call: RawCall) -> Reading:
        yield from self.source.space()
        yield from self._function(call)
        yield from self.source.space()
        yield from self.source.expect(_CLOSE, after=_FUNCTION_CLOSE)
        self._shut(call)

    def _unwrapped(self, call: RawCall) -> Reading:
        yield from self._function(call)
        yield from self.source.space()
        yield from self.source.accept(_CLOSE)
        self._shut(call)

    def _function(self, call: RawCall) -> Reading:
        source = self.source
        yield from source.expect(_FUNCTION)
        source.state = State.NAME
        call.name_position = source.position
        name = yield from self._name("function")
        call.name = name
        source.state = State.ENVELOPE
        arguments: dict[str, str] = {}
        call.partial = arguments
        while True:
            yield from source.space()
            position = source.position
            marker = yield from source.accept(_PARAMETER, _FUNCTION_CLOSE)
            if not marker:
                raise (yield from source.expected(_PARAMETER, _FUNCTION_CLOSE))
            if marker == _FUNCTION_CLOSE:
                break
            source.state = State.ARGUMENT_NAME
            key = yield from self._name("parameter")
            if key in arguments:
                raise Broken(Fault(position=position, message=f"the parameter {key!r} stands twice"))
            yield from self._value(call, arguments, key)
        call.arguments = dict(arguments)
        call.untyped = frozenset(arguments)

    def _name(self, what: str) -> Generator[None, None, str]:
        source = self.source
        position = source.position
        name = yield from source.run(_NAME, limit=MAX_NAME_LENGTH)
        yield from source.expect(">", after=f"the name of the {what}")
        if not name:
            raise Broken(Fault(position=position, message=f"the {what} has no name"))
        return name

    def _value(self, call: RawCall, arguments: dict[str, str], key: str) -> Reading:
        source = self.source
        source.state = State.VALUE
        call.positions[key] = source.position
        keep: list[str] = []
        try:
            yield from read_value(source, call, _TAGS, keep)
        finally:
            arguments[key] = without_frame("".join(keep))
        source.state = State.ENVELOPE


def without_frame(value: str) -> str:
    """A value without the newline that each tag brings along."""
    value = value[1:] if value.startswith("\n") else value
    return value[:-1] if value.endswith("\n") else value
