"""Hermes: a JSON object between `<tool_call>` and `</tool_call>`; Qwen 2.5 and 3 write it too."""

from __future__ import annotations

from suite.grade.call_object import read_call_object
from suite.grade.interface import RawCall
from suite.grade.machine import Machine
from suite.grade.source import Reading

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class Hermes(Machine):
    """A closing tag inside a JSON string is text."""

    name = "hermes"

    def _read(self) -> Reading:
        while marker := (yield from self._outside(_OPEN, _CLOSE)):
            if marker == _CLOSE:
                self._stray_here("</tool_call> closes nothing")
                self.source.skip(len(marker))
                continue
            call = self._open()
            self.source.skip(len(marker))
            yield from self._guarded(call, self._body, _CLOSE, _OPEN)

    def _body(self, call: RawCall) -> Reading:
        yield from read_call_object(self.source, call, arguments_key="arguments")
        yield from self.source.space()
        yield from self.source.expect(_CLOSE, after="the call's JSON")
        self._shut(call)
