"""A text that arrives in pieces, with the few readings that every grammar is made of.

Readers are generators: each `yield` asks for more text. What they have read is dropped, and they keep back no more than
a marker's length, so reading is linear however the text is cut, and cutting it elsewhere changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache

from suite.grade.interface import Fault, State

Reading = Generator[None, None, None]
SPACE = re.compile(r"[ \t\r\n]*")
_SHOWN = 24


class Broken(Exception):
    """Leaves a reader at the first fault of a call. Never leaves a grammar."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Source:
    """The unread part of the text and the position in the whole."""

    __slots__ = ("at", "base", "buffer", "ended", "state")

    def __init__(self) -> None:
        self.buffer = ""
        self.at = 0
        self.base = 0
        self.ended = False
        self.state = State.OUTSIDE

    @property
    def position(self) -> int:
        """Characters read so far."""
        return self.base + self.at

    def push(self, piece: str) -> None:
        """Append a piece."""
        self.base += self.at
        self.buffer = self.buffer[self.at :] + piece
        self.at = 0

    def broken(self, message: str, *, position: int | None = None, expected: tuple[str, ...] = ()) -> Broken:
        """A fault here, or at `position`. At the end if nothing follows, or a part of what is expected."""
        rest = self.buffer[self.at :]
        cut_off = self.ended and (not rest or any(len(item) > len(rest) and item.startswith(rest) for item in expected))
        return Broken(
            Fault(
                position=self.position if position is None else position,
                message=message,
                at_end=cut_off and position is None,
            )
        )

    def expected(self, *literals: str, after: str = "") -> Generator[None, None, Broken]:
        """The fault that none of the literals stands here."""
        found = yield from self.peek(_SHOWN)
        place = f" after {after}" if after else ""
        return self.broken(f"expected {' or '.join(map(repr, literals))}{place}, {shown(found)}", expected=literals)

    def peek(self, count: int) -> Generator[None, None, str]:
        """The next `count` characters, fewer only at the end; nothing is read."""
        while len(self.buffer) - self.at < count and not self.ended:
            yield
        return self.buffer[self.at : self.at + count]

    def stands(self, *literals: str) -> Generator[None, None, str]:
        """The longest of the literals that stands here, unread; empty if none does."""
        ordered = sorted(literals, key=len, reverse=True)
        while True:
            rest = len(self.buffer) - self.at
            start = self.buffer[self.at : self.at + len(ordered[0])]
            if not self.ended and any(len(item) > rest and item.startswith(start) for item in ordered):
                yield
                continue
            return next((item for item in ordered if start.startswith(item)), "")

    def accept(self, *literals: str) -> Generator[None, None, str]:
        """Read and return the longest of the literals that stands here; empty if none does."""
        found = yield from self.stands(*literals)
        self.at += len(found)
        return found

    def expect(self, literal: str, *, after: str = "") -> Reading:
        """Read the literal.

        Raises:
            Broken: something else stands here.
        """
        if not (yield from self.accept(literal)):
            raise (yield from self.expected(literal, after=after))

    def space(self) -> Generator[None, None, bool]:
        """Read white space; returns whether there was any."""
        some = False
        while True:
            match = SPACE.match(self.buffer, self.at)
            assert match is not None
            some = some or match.end() > self.at
            self.at = match.end()
            if self.at < len(self.buffer) or self.ended:
                return some
            yield

    def run(self, pattern: re.Pattern[str], *, limit: int) -> Generator[None, None, str]:
        """Read the characters that `pattern` (of the form `[...]*`) matches, at most `limit`."""
        pieces: list[str] = []
        length = 0
        while True:
            match = pattern.match(self.buffer, self.at, self.at + limit - length)
            assert match is not None
            pieces.append(match[0])
            length += len(match[0])
            self.at = match.end()
            if self.at < len(self.buffer) or self.ended or length >= limit:
                return "".join(pieces)
            yield

    def until(self, *markers: str, keep: list[str] | None = None) -> Generator[None, None, str]:
        """Read up to the first marker and return it unread; empty at the end. `keep` collects what was read."""
        search, starts, longest = _search(markers)
        while True:
            match = search.search(self.buffer, self.at)
            if match is not None:
                end = match.start()
            elif self.ended:
                end = len(self.buffer)
            else:
                end = _held_back(self.buffer, self.at, markers, starts, longest)
            if keep is not None and end > self.at:
                keep.append(self.buffer[self.at : end])
            self.at = end
            if match is not None:
                return match[0]
            if self.ended:
                return ""
            yield

    def skip(self, count: int) -> None:
        """Read characters that are known to be here."""
        self.at += count


def shown(text: str) -> str:
    """How a fault's message speaks of what stands there."""
    if not text:
        return "found the end"
    return f"found {text.encode(errors='replace').decode()!r}"


@lru_cache(maxsize=256)
def _search(markers: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str], int]:
    ordered = sorted(markers, key=len, reverse=True)
    first = "".join(sorted({re.escape(item[0]) for item in markers}))
    return re.compile("|".join(map(re.escape, ordered))), re.compile(f"[{first}]"), len(ordered[0])


def _held_back(buffer: str, at: int, markers: tuple[str, ...], starts: re.Pattern[str], longest: int) -> int:
    """Where the longest end of the buffer starts that could become a marker."""
    for match in starts.finditer(buffer, max(at, len(buffer) - longest + 1)):
        tail = buffer[match.start() :]
        if any(item.startswith(tail) for item in markers):
            return match.start()
    return len(buffer)
