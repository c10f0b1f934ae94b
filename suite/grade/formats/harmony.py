"""Harmony (gpt-oss): messages with a header of role, channel and recipient; a recipient makes a message a call."""

from __future__ import annotations

import re
from collections.abc import Generator

from suite.grade.call_object import read_arguments
from suite.grade.interface import Fault, RawCall, State
from suite.grade.machine import MAX_NAME_LENGTH, Machine
from suite.grade.source import Broken, Reading, shown

_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_CALL, _END, _RETURN = "<|call|>", "<|end|>", "<|return|>"
_TO = " to="
_WORD = re.compile(r"[A-Za-z_]*")
_RECIPIENT = re.compile(r"[^\s<>{}\"\ud800-\udfff]*")
_CHANNELS = ("analysis", "commentary", "final")


class Harmony(Machine):
    """`<|call|>` closes a call. It is a stop token, which servers may strip: then the end of the text closes it."""

    name = "harmony"

    def _read(self) -> Reading:
        source = self.source
        if (yield from source.peek(len(_TO))) == _TO:
            # The prompt ended behind the role.
            yield from self._message(0)
        while marker := (yield from self._outside(_START, _CHANNEL, _MESSAGE, _CONSTRAIN, _CALL, _END, _RETURN)):
            position = source.position
            if marker in (_END, _RETURN):
                source.skip(len(marker))
            elif marker in (_START, _CHANNEL):
                yield from self._message(position)
            else:
                self._stray_here(f"{marker} outside a header")
                source.skip(len(marker))

    def _message(self, start: int) -> Reading:
        """A header and, if it names a recipient, the call behind it. Other contents are left to the outer loop."""
        source = self.source
        call: list[RawCall] = []
        try:
            yield from self._header(start, call)
            if call:
                yield from self._body(call[0])
        except Broken as broken:
            if not call:
                if not broken.fault.at_end:
                    self._stray_here(broken.fault.message, position=broken.fault.position)
                return
            call[0].fail(broken.fault)
            source.state = State.ENVELOPE
            if (yield from source.until(_CALL, _START, _END)) == _CALL:
                source.skip(len(_CALL))
                call[0].closed = True
            call[0].end = source.position
            source.state = State.OUTSIDE

    def _header(self, start: int, call: list[RawCall]) -> Reading:
        source = self.source
        if (yield from source.accept(_START)):
            yield from source.expect("assistant", after=_START)
        yield from self._recipient(start, call)
        yield from source.expect(_CHANNEL, after="the role" if not call else "the recipient")
        position = source.position
        channel = yield from source.run(_WORD, limit=16)
        if channel not in _CHANNELS:
            if not (yield from source.peek(1)):
                raise source.broken("the header ends too early")
            raise Broken(Fault(position=position, message=f"no channel is named {channel!r}"))
        if not call:
            yield from self._recipient(start, call)
        if call and channel == "analysis":
            call[0].in_reasoning = True
        yield from source.accept(" ")
        if (yield from source.accept(_CONSTRAIN)):
            kind = yield from source.run(_WORD, limit=16)
            if kind != "json" and (yield from source.peek(1)):
                raise source.broken(f"{_CONSTRAIN} says {kind!r}, not 'json'")
        yield from source.expect(_MESSAGE, after="the header")

    def _recipient(self, start: int, call: list[RawCall]) -> Reading:
        source = self.source
        if not (yield from source.accept(_TO)):
            return
        opened = self._open(position=start)
        call.append(opened)
        source.state = State.NAME
        position = source.position
        prefix = yield from source.accept("functions.")
        opened.name_position = source.position
        name = yield from source.run(_RECIPIENT, limit=MAX_NAME_LENGTH)
        if (yield from source.peek(1)):
            opened.name = name or None
            if not name:
                found = yield from source.peek(24)
                raise source.broken(f"expected a recipient after 'to=', {shown(found)}")
            if not prefix:
                opened.fail(Fault(position=position, message=f"the recipient {name!r} is none of functions.NAME"))
        source.state = State.ENVELOPE

    def _body(self, call: RawCall) -> Generator[None, None, None]:
        source = self.source
        yield from read_arguments(source, call)
        source.state = State.ENVELOPE
        yield from source.space()
        if (yield from source.accept(_CALL)):
            self._shut(call)
            return
        if not (yield from source.peek(1)):
            call.needs_stop_token = True
            self._shut(call)
            return
        raise (yield from source.expected(_CALL, after="the arguments"))
