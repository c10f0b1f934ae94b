"""Kimi K2: a section of calls, each with an id `functions.NAME:INDEX` before its JSON arguments."""

from __future__ import annotations

import re

from suite.grade.call_object import read_arguments
from suite.grade.formats.sectioned import Sectioned
from suite.grade.interface import Fault, RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH
from suite.grade.source import Reading

_ID = re.compile(r"[^\s<>{}\"\ud800-\udfff]*")
_PARTS = re.compile(r"(functions\.)?(.+?)(:[0-9]+)?")
_ARGUMENTS = "<|tool_call_argument_begin|>"


class KimiK2(Sectioned):
    """The name is a part of the id; an id of another shape is a fault, and its likely name is still shown."""

    name = "kimi_k2"
    section, section_close = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    opens, closes = "<|tool_call_begin|>", "<|tool_call_end|>"

    def _body(self, call: RawCall) -> Reading:
        source = self.source
        source.state = State.NAME
        yield from source.space()
        position = source.position
        identity = yield from source.run(_ID, limit=MAX_NAME_LENGTH)
        spaced = yield from source.space()
        if (yield from source.peek(1)):
            # Only what stands behind an id shows that it is whole.
            parts = _PARTS.fullmatch(identity)
            if parts is not None:
                call.name = parts[2]
                call.name_position = position + len(parts[1] or "")
            if parts is None or parts[1] is None or parts[3] is None:
                message = f"the id {identity[:64]!r} is not of the form functions.NAME:INDEX"
                call.fail(Fault(position=position, message=message))
        source.state = State.ENVELOPE
        yield from source.expect(_ARGUMENTS, after="the white space" if spaced else "the call's id")
        yield from read_arguments(source, call)
        source.state = State.ENVELOPE
        yield from source.space()
        yield from source.expect(self.closes, after="the arguments")
        self._shut(call)
