"""DeepSeek V3.1: `NAME<｜tool▁sep｜>` and the arguments at once, without type and fence."""

from __future__ import annotations

import re

from suite.grade.call_object import read_arguments
from suite.grade.formats.sectioned import Sectioned
from suite.grade.interface import RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH
from suite.grade.source import Reading, shown

_NAME = re.compile(r"[^\s<>｜`{}\"\ud800-\udfff]*")


class DeepSeekV31(Sectioned):
    """The same marks as V3 with other contents, so that one version's parser misreads the other's text."""

    name = "deepseek_v31"
    section, section_close = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    opens, closes = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"

    def _body(self, call: RawCall) -> Reading:
        source = self.source
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
        yield from source.expect("<｜tool▁sep｜>", after="the name")
        yield from read_arguments(source, call)
        source.state = State.ENVELOPE
        yield from source.space()
        yield from source.expect(self.closes, after="the arguments")
        self._shut(call)
