"""Formats that put all calls of a message into one section: DeepSeek's three and Kimi K2."""

from __future__ import annotations

from typing import ClassVar

from suite.grade.interface import Fault, RawCall, State
from suite.grade.machine import Machine
from suite.grade.source import Reading


class Sectioned(Machine):
    """A section's marks, and inside it a mark on each side of every call. Subclasses read what lies between those."""

    section: ClassVar[str]
    section_close: ClassVar[str]
    opens: ClassVar[str]
    closes: ClassVar[str]

    def _read(self) -> Reading:
        source = self.source
        while marker := (yield from self._outside(self.section, self.section_close, self.opens, self.closes)):
            if marker == self.section:
                source.skip(len(marker))
                yield from self._section(None)
            elif marker == self.opens:
                fault = Fault(position=source.position, message=f"a call outside {self.section}")
                yield from self._section(fault)
            else:
                self._stray_here(f"{marker} closes nothing")
                source.skip(len(marker))

    def _section(self, missing: Fault | None) -> Reading:
        source = self.source
        start = source.position
        call: RawCall | None = None
        while True:
            source.state = State.ENVELOPE if missing is None else State.OUTSIDE
            yield from source.space()
            if (yield from source.accept(self.section_close)):
                break
            position = source.position
            if (yield from source.accept(self.opens)):
                call = self._open(position=position)
                if missing is not None:
                    call.fail(missing)
                yield from self._guarded(call, self._body, self.closes, self.opens, self.section_close)
                if missing is not None:
                    yield from source.space()
                    if not (yield from source.stands(self.opens)):
                        yield from source.accept(self.section_close)
                        break
                continue
            found = yield from source.peek(1)
            broken = yield from source.expected(self.opens, self.section_close)
            if call is None and not found:
                call = self._open(position=start)
            if call is None:
                self._stray_here(broken.fault.message)
            else:
                call.fail(broken.fault)
                # A call that swallowed the section's end is at fault already; whether it closed was seen then.
                call.closed = call.closed and (bool(found) or call.fault is not broken.fault)
            if not found:
                return
            # Call syntax goes on somewhere behind the stray text, or nowhere.
            ahead = yield from source.until(self.section_close, self.opens)
            if not ahead and call is not None:
                call.closed = False
            if not ahead:
                return
        if call is None:
            self._stray_here("a section without calls", position=start)
        source.state = State.OUTSIDE

    def _body(self, call: RawCall) -> Reading:
        raise AssertionError("a sectioned grammar reads calls")
        yield
