"""What all grammars share: feeding, reasoning marks, opening and closing calls, finding the way after a fault."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import ClassVar

from suite.grade.interface import Fault, Parsed, RawCall, State
from suite.grade.source import Broken, Reading, Source, shown

MAX_CALLS = 1024
MAX_NAME_LENGTH = 256
THINK_OPEN = ("<think>", "[THINK]")
THINK_CLOSE = ("</think>", "[/THINK]")

END_TOKENS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "</s>",
    "<｜end▁of▁sentence｜>",
    "<|user|>",
    "<|observation|>",
)
"""Tokens that end a turn; kept special tokens leave them at the end of the text."""


class _TooManyCalls(Exception):
    pass


class Machine:
    """Base of the grammars; a subclass reads the text in `_read`.

    Args:
        reasoning_open: The prompt ended inside the model's reasoning (`<think>` stands in the template).
    """

    name: ClassVar[str]

    def __init__(self, *, reasoning_open: bool = False) -> None:
        self.source = Source()
        self._calls: list[RawCall] = []
        self._stray: Fault | None = None
        self._num_stray = 0
        self._thinking = reasoning_open
        self._running = self._run()
        next(self._running)

    @property
    def state(self) -> State:
        """See `Grammar.state`."""
        return self.source.state

    @property
    def calls(self) -> tuple[RawCall, ...]:
        """The calls so far, the open one included."""
        return tuple(self._calls)

    def feed(self, text: str) -> State:
        """See `Grammar.feed`."""
        if text:
            self.source.push(text)
            next(self._running)
        return self.source.state

    def finish(self) -> Parsed:
        """See `Grammar.finish`."""
        if not self.source.ended:
            self.source.ended = True
            with suppress(StopIteration):
                next(self._running)
        return Parsed(format=self.name, calls=tuple(self._calls), stray=self._stray, length=self.source.position)

    def _read(self) -> Reading:
        """Read the whole text."""
        raise AssertionError("a grammar reads")
        yield

    def _run(self) -> Reading:
        yield
        try:
            yield from self._read()
        except _TooManyCalls:
            if self._stray is None:
                self._stray_here(f"more than {MAX_CALLS} calls; the rest is not read")
        self.source.state = State.OUTSIDE
        while True:
            self.source.at = len(self.source.buffer)
            if self.source.ended:
                return
            yield

    def _stray_here(self, message: str, *, position: int | None = None) -> None:
        self._num_stray += 1
        if self._num_stray > MAX_CALLS:
            raise _TooManyCalls
        if self._stray is None:
            self._stray = Fault(position=self.source.position if position is None else position, message=message)

    def _outside(self, *markers: str) -> Generator[None, None, str]:
        """Read text that is no call up to the next marker, unread; keeps account of reasoning. Empty at the end."""
        source = self.source
        source.state = State.OUTSIDE
        while True:
            marker = yield from source.until(*markers, *THINK_OPEN, *THINK_CLOSE)
            if marker in markers or not marker:
                return marker
            source.skip(len(marker))
            if marker in THINK_CLOSE and not self._thinking:
                # The opening mark stood in the prompt: all up to here was reasoning.
                for call in self._calls:
                    call.in_reasoning = True
            self._thinking = marker in THINK_OPEN

    def _open(self, *, position: int | None = None) -> RawCall:
        """A call starts here."""
        if len(self._calls) >= MAX_CALLS:
            raise _TooManyCalls
        call = RawCall(start=self.source.position if position is None else position, in_reasoning=self._thinking)
        self._calls.append(call)
        self.source.state = State.ENVELOPE
        return call

    def _shut(self, call: RawCall) -> None:
        """The call's envelope ends here."""
        call.closed = True
        call.end = self.source.position
        self.source.state = State.OUTSIDE

    def _guarded(
        self, call: RawCall, body: Callable[[RawCall], Reading], close: str, *opens: str
    ) -> Generator[None, None, None]:
        """Read a call's body; after a fault, go on to its closing mark, or to where another call opens."""
        try:
            yield from body(call)
        except Broken as broken:
            call.fail(broken.fault)
            if not call.closed:
                self.source.state = State.ENVELOPE
                if (yield from self.source.until(close, *opens)) == close:
                    self.source.skip(len(close))
                    call.closed = True
            call.end = self.source.position
            self.source.state = State.OUTSIDE

    def _finish_message(self, call: RawCall | None, *more: str) -> Generator[None, None, str]:
        """After calls that nothing may follow: returns which of `more` is read, or empty at a proper end.

        Anything else is a fault of `call`.
        """
        yield from self.source.space()
        if found := (yield from self.source.accept(*more, *END_TOKENS)):
            if found in more:
                return found
            return (yield from self._finish_message(None, *more))
        rest = yield from self.source.peek(24)
        fault = self.source.broken(f"text after the call, {shown(rest)}", expected=(*more, *END_TOKENS)).fault
        if call is not None and not fault.at_end:
            call.fail(fault)
        return ""
