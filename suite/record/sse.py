"""Server-sent events, read as the WHATWG HTML standard (section 9.2.6) says, from the bytes of a whole stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event with data."""

    data: str
    name: str = "message"
    whole: bool = True
    """False: the stream ended before the empty line that ends an event; a browser would drop it."""


def events(stream: bytes) -> Iterator[Event]:
    """The events of a stream in order. Bytes that are no UTF-8 become U+FFFD, comments and unknown fields go away."""
    text = stream.removeprefix(_BOM).decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    data: list[str] = []
    name = ""
    lines = text.split("\n")
    tail = lines.pop()  # what stands after the last line end is no whole line
    for line in lines:
        if not line:
            if data:
                yield Event(data="\n".join(data), name=name or "message")
            data, name = [], ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    if tail.startswith("data:"):
        data.append(tail[len("data:") :].removeprefix(" "))
    if data:
        yield Event(data="\n".join(data), name=name or "message", whole=False)
