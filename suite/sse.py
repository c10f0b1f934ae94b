"""Server-sent events, read as the WHATWG HTML standard (section 9.2.6) says, from the pieces of a stream."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event with data."""

    data: str
    name: str = "message"
    whole: bool = True
    """False: the stream ended before the empty line that ends an event; a browser would drop it."""


def events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream in order, each as soon as it ends; pieces may be cut anywhere.

    Bytes that are no UTF-8 become U+FFFD, comments and unknown fields go away.
    """
    data: list[str] = []
    name = ""
    for line in _lines(pieces):
        if line == "\n":
            if data:
                yield Event(data="\n".join(data), name=name or "message")
            data, name = [], ""
            continue
        whole = line.endswith("\n")  # of what stands after the last line end, only data is of use
        field, colon, value = line.removesuffix("\n").partition(":")
        value = value.removeprefix(" ")
        if field == "data" and (whole or colon):
            data.append(value)
        elif field == "event" and whole:
            name = value
    if data:
        yield Event(data="\n".join(data), name=name or "message", whole=False)


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines with a line feed for whatever ended them; the last one may lack it."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(errors="replace"), translate=True)
    rest: list[str] = []
    for piece in pieces:
        *ended, last = decoder.decode(piece).split("\n")
        for line in ended:
            yield "".join([*rest, line, "\n"])
            rest = []
        rest.append(last)
    *ended, last = "".join([*rest, decoder.decode(b"", final=True)]).split("\n")
    yield from (f"{line}\n" for line in ended)
    if last:
        yield last
