"""DeepSeek V3 and R1: `function<｜tool▁sep｜>NAME`, then the arguments in a fenced block."""

from __future__ import annotations

import re

from suite.grade.call_object import read_arguments
from suite.grade.formats.sectioned import Sectioned
from suite.grade.interface import RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH
from suite.grade.source import Reading, shown

_NAME = re.compile(r"[^\s<>｜`{}\"\ud800-\udfff]*")


class DeepSeekV3(Sectioned):
    """The word `function` before the separator is the call's type, not its name."""

    name = "deepseek_v3"
    section, section_close = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    opens, closes = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"

    def _body(self, call: RawCall) -> Reading:
        source = self.source
        yield from source.expect("function<｜tool▁sep｜>", after=self.opens)
        source.state = State.NAME
        call.name_position = source.position
        name = yield from source.run(_NAME, limit=MAX_NAME_LENGTH)
        if not name:
            found = yield from source.peek(24)
            raise source.broken(f"expected the name of the function, {shown(found)}")
        if (yield from source.peek(1)):
            # Only what stands behind a name shows that it is whole.
            call.name = name
        source.state = State.ENVELOPE
        yield from source.expect("\n```json\n", after="the name")
        yield from read_arguments(source, call)
        source.state = State.ENVELOPE
        yield from source.space()
        yield from source.expect("```", after="the arguments")
        yield from source.space()
        yield from source.expect(self.closes, after="the fence")
        self._shut(call)
