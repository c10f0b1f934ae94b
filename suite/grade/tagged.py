"""Argument values between tags that have no escape: where a value ends when it holds the tags itself."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from suite.grade.interface import Fault, RawCall
from suite.grade.machine import END_TOKENS
from suite.grade.source import SPACE, Broken, Source

_NO_LIMIT = 1 << 60
_DOUBTFUL = "text after a value's closing tag"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tags:
    """The marks around a value and around its call."""

    close: str
    """Ends the value."""
    followers: tuple[str, ...]
    """What may stand behind the closing tag, white space aside. Elsewhere the tag is part of the value."""
    next_argument: str
    """Opens the next argument. At the start of a line it shows that this value was never closed."""
    call_close: str
    call_open: str


def read_value(source: Source, call: RawCall, tags: Tags, keep: list[str]) -> Generator[None, None, None]:
    """Read a value and its closing tag; `keep` collects the value.

    A closing tag counts if it starts a line or if what follows continues the call. A value that holds one elsewhere
    keeps it as text, as a string keeps one in JSON; if then the next argument or call opens before a tag that counts,
    the text can be read in two ways, which is a fault at the first doubtful tag.

    Raises:
        Broken: the value does not end, or ends doubtfully. `call.closed` is set if its own closing mark was passed.
    """
    doubtful: int | None = None
    passed: int | None = None
    newline_next = "\n" + tags.next_argument
    markers = (tags.close, newline_next, tags.next_argument, tags.call_close, tags.call_open)
    while True:
        marker = yield from source.until(*markers, keep=keep)
        position = source.position
        if marker == tags.close:
            anchored = _ends_line(keep)
            source.skip(len(marker))
            gap: list[str] = []
            follows = yield from _follows(source, tags, gap)
            if anchored or follows:
                return
            doubtful = position if doubtful is None else doubtful
            keep += [marker, *gap]
            continue
        if marker == tags.call_close:
            passed = position if passed is None else passed
        elif not marker:
            _raise_unended(source, call, doubtful, passed)
        elif marker == tags.call_open:
            if passed is not None:
                _raise_unended(source, call, doubtful, passed)
        elif marker == newline_next or doubtful is not None:
            if passed is not None and (doubtful is None or passed > doubtful):
                call.closed = True
            message = _DOUBTFUL if doubtful is not None else "the value before this is not closed"
            raise Broken(Fault(position=position if doubtful is None else doubtful, message=message))
        keep.append(marker)
        source.skip(len(marker))


def _raise_unended(source: Source, call: RawCall, doubtful: int | None, passed: int | None) -> None:
    if passed is not None:
        call.closed = True
        call.end = source.position
    position = doubtful if doubtful is not None else passed
    if position is None:
        raise Broken(Fault(position=source.position, message="the value never ends", at_end=True))
    message = _DOUBTFUL if doubtful is not None else "the call closes inside a value"
    raise Broken(Fault(position=position, message=message))


def _ends_line(keep: list[str]) -> bool:
    return not keep or keep[-1].endswith("\n")


def _follows(source: Source, tags: Tags, gap: list[str]) -> Generator[None, None, bool]:
    """Whether the call goes on here, or the text ends; white space before is read into `gap`."""
    gap.append((yield from source.run(SPACE, limit=_NO_LIMIT)))
    going_on = (*tags.followers, *END_TOKENS)
    if (yield from source.stands(*going_on)):
        return True
    rest = yield from source.peek(max(map(len, going_on)))
    return source.broken("", expected=going_on).fault.at_end or not rest
