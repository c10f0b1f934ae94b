"""DeepSeek V3.2: DSML, with `invoke` and `parameter` elements; `string="true|false"` types each value."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from suite.grade.formats.sectioned import Sectioned
from suite.grade.interface import Fault, RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH
from suite.grade.source import Broken, Reading
from suite.grade.tagged import Tags, read_value

_PARAMETER = '<｜DSML｜parameter name="'
_INVOKE = '<｜DSML｜invoke name="'
_TAGS = Tags(
    close="</｜DSML｜parameter>",
    followers=(_PARAMETER, "</｜DSML｜invoke>", "</｜DSML｜function_calls>", _INVOKE),
    next_argument=_PARAMETER,
    call_close="</｜DSML｜invoke>",
    call_open=_INVOKE,
)
_NAME = re.compile(r"[^\s<>\"\ud800-\udfff]*")


class DeepSeekV32(Sectioned):
    """A value marked `string="true"` is its text; any other is JSON."""

    name = "deepseek_v32"
    section, section_close = "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"
    opens, closes = _INVOKE, "</｜DSML｜invoke>"

    def _body(self, call: RawCall) -> Reading:
        source = self.source
        source.state = State.NAME
        call.name_position = source.position
        call.name = yield from self._name('">')
        source.state = State.ENVELOPE
        arguments: dict[str, Any] = {}
        marked: set[str] = set()
        call.partial = arguments
        while True:
            yield from source.space()
            position = source.position
            marker = yield from source.accept(_PARAMETER, self.closes)
            if not marker:
                raise (yield from source.expected(_PARAMETER, self.closes))
            if marker == self.closes:
                break
            source.state = State.ARGUMENT_NAME
            key = yield from self._name('" string="')
            source.state = State.ENVELOPE
            is_string = yield from source.accept("true", "false")
            if not is_string:
                raise (yield from source.expected("true", "false", after="string="))
            yield from source.expect('">', after="the parameter's type")
            if key in arguments:
                raise Broken(Fault(position=position, message=f"the parameter {key!r} stands twice"))
            yield from self._value(call, arguments, key)
            if is_string == "false":
                marked.add(key)
        call.arguments = dict(arguments)
        call.marked_json = frozenset(marked)
        self._shut(call)

    def _name(self, behind: str) -> Generator[None, None, str]:
        source = self.source
        position = source.position
        name = yield from source.run(_NAME, limit=MAX_NAME_LENGTH)
        yield from source.expect(behind, after="the name")
        if not name:
            raise Broken(Fault(position=position, message="the name is empty"))
        return name

    def _value(self, call: RawCall, arguments: dict[str, Any], key: str) -> Reading:
        source = self.source
        source.state = State.VALUE
        call.positions[key] = source.position
        keep: list[str] = []
        try:
            yield from read_value(source, call, _TAGS, keep)
        finally:
            arguments[key] = "".join(keep)
        source.state = State.ENVELOPE
