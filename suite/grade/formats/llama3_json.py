"""Llama 3 JSON: the whole message is `{"name": …, "parameters": {…}}`, at times behind `<|python_tag|>`."""

from __future__ import annotations

from suite.grade.call_object import read_call_object
from suite.grade.interface import Fault, State
from suite.grade.machine import Machine
from suite.grade.source import Broken, Reading

_TAG = "<|python_tag|>"
_LIKELY = ('{"name"', '{ "name"', '{\n"name"', '{\n  "name"', '{\n    "name"')


class Llama3Json(Machine):
    """Several calls stand side by side with semicolons between them. Text before or after a call is a fault."""

    name = "llama3_json"

    def _read(self) -> Reading:
        source = self.source
        yield from source.space()
        marker = yield from source.accept(_TAG)
        start = source.position - len(marker)
        yield from source.space()
        if marker or (yield from source.peek(1)) == "{":
            yield from self._calls_from(start, None)
        while found := (yield from self._outside(_TAG, *_LIKELY)):
            position = source.position
            source.skip(len(found) if found == _TAG else 0)
            yield from self._calls_from(position, Fault(position=position, message="text before the call"))

    def _calls_from(self, start: int, fault: Fault | None) -> Reading:
        source = self.source
        while True:
            call = self._open(position=start)
            if fault is not None:
                call.fail(fault)
            try:
                yield from read_call_object(source, call, arguments_key="parameters", optional=("type",))
            except Broken as broken:
                call.fail(broken.fault)
                call.end = source.position
                source.state = State.OUTSIDE
                return
            self._shut(call)
            if not (yield from self._finish_message(call, ";", _TAG)):
                return
            yield from source.space()
            start = source.position
