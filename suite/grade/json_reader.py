"""A strict JSON reader that takes text in pieces: RFC 8259, and nothing that its readers disagree about.

Refused with the position of the first fault: duplicate keys, NaN and infinities, numbers out of range, lone surrogates,
control characters in strings, nesting deeper than the limit. What was read before a fault stays available.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator
from typing import Any, Protocol

from suite.grade.interface import Fault, State
from suite.grade.source import SPACE, Broken, Source, shown

MAX_DEPTH = 128
MAX_NUMBER_LENGTH = 4000
_MAX_POSITIONS = 20_000
Path = tuple[str | int, ...]

# Whole escapes among other characters; pairs of surrogates are left to `_escape`.
_ESCAPED_RUN = re.compile(r'(?:[^"\\\x00-\x1f\ud800-\udfff]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})++')
# Short integers in a list, each with its comma.
_INTEGER_RUN = re.compile(r"(?:-?(?:0|[1-9][0-9]{0,14}),[ \n]?)++")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBER_RUN = re.compile(r"[-+0-9.eE]*")
_WORD_RUN = re.compile(r"[A-Za-z]{0,9}")
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_DIGITS = "-0123456789"
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}


class JsonNumber(float):
    """A number with a fraction or an exponent that remembers how it was written: `1.10` is not `1.1`."""

    __slots__ = ("written",)

    def __new__(cls, written: str) -> JsonNumber:
        """From its digits."""
        number = super().__new__(cls, written)
        number.written = written
        return number

    written: str


class View(Protocol):
    """What a grammar wants to know while JSON is read."""

    def state(self, path: Path, place: str) -> State:
        """The state at `path`; `place` is `key`, `value` or `between`."""

    def wants(self, path: Path) -> bool:
        """Whether the characters of the string at `path` are wanted as they come."""

    def characters(self, text: str, position: int, raw: str) -> None:
        """Decoded characters of a wanted string; `raw` are the same as written, at `position` in the output.

        `raw` is empty for a single character.
        """


class JsonReader:
    """Reads one JSON value from a source.

    Args:
        source: The text; its `at` stands on the value or on white space before it.
        view: Says which state each place means.
        positions_depth: Keep the start of every value nested at most this deep, in `positions`.
    """

    def __init__(self, source: Source, view: View, *, positions_depth: int = 2) -> None:
        self.source = source
        self.view = view
        self.positions: dict[Path, int] = {}
        self.root: Any = None
        """The value; after a fault, as much of it as was read, an unfinished string included."""
        self._stack: list[Any] = []
        self._keys: list[str] = []
        self._depth = positions_depth

    def read(self) -> Generator[None, None, Any]:
        """The value.

        Raises:
            Broken: the first fault.
        """
        source, stack = self.source, self._stack
        while True:
            character = yield from self._significant("value")
            container = stack[-1] if stack else None
            if type(container) is list and character == "]":
                if container:
                    raise source.broken("a comma before the closing bracket")
                source.at += 1
            else:
                if type(container) is list and character in _DIGITS:
                    many = _INTEGER_RUN.match(source.buffer, source.at)
                    if many is not None:
                        container.extend(map(int, many[0].split(",")[:-1]))
                        source.at = many.end()
                        continue
                if len(stack) <= self._depth and len(self.positions) < _MAX_POSITIONS:
                    self.positions[self._path()] = source.position
                if character in "{[":
                    if len(stack) >= MAX_DEPTH:
                        raise source.broken(f"nested deeper than {MAX_DEPTH} levels")
                    source.at += 1
                    opened: Any = {} if character == "{" else []
                    self._put(opened)
                    stack.append(opened)
                    self._keys.append("")
                    if character == "[":
                        continue
                    if (yield from self._first_key()):
                        continue
                elif character == '"':
                    self._put((yield from self._string("value")))
                    if not stack:
                        return self.root
                    if (yield from self._next()):
                        continue
                else:
                    self._put((yield from self._scalar(character)))
                    if not stack:
                        return self.root
                    if (yield from self._next()):
                        continue
            # A container was closed here; so may be those around it.
            while True:
                stack.pop()
                self._keys.pop()
                if not stack:
                    return self.root
                if (yield from self._next()):
                    break

    def _significant(self, place: str) -> Generator[None, None, str]:
        """Skip white space; the next character, unread."""
        source = self.source
        while True:
            match = SPACE.match(source.buffer, source.at)
            assert match is not None
            source.at = match.end()
            if source.at < len(source.buffer):
                return source.buffer[source.at]
            if source.ended:
                raise source.broken("the JSON ends too early")
            source.state = self.view.state(self._path(), place)
            yield

    def _here(self, place: str) -> Generator[None, None, str]:
        """What stands at a fault."""
        self.source.state = self.view.state(self._path(), place)
        return (yield from self.source.peek(24))

    def _first_key(self) -> Generator[None, None, bool]:
        """After `{`: whether a member follows; the value is next then."""
        source = self.source
        if (yield from self._significant("between")) == "}":
            source.at += 1
            return False
        yield from self._key()
        return True

    def _next(self) -> Generator[None, None, bool]:
        """After a value in a container: whether another follows; else the container is closed."""
        source = self.source
        in_object = type(self._stack[-1]) is dict
        character = yield from self._significant("between")
        if character == ",":
            source.at += 1
            if in_object:
                yield from self._key()
            return True
        if character != ("}" if in_object else "]"):
            found = yield from self._here("between")
            raise source.broken(f"expected ',' or {'}' if in_object else ']'!r} in the JSON, {shown(found)}")
        source.at += 1
        return False

    def _key(self) -> Generator[None, None, None]:
        source = self.source
        if (yield from self._significant("between")) != '"':
            found = yield from self._here("between")
            raise source.broken(f"expected a key in double quotes, {shown(found)}")
        position = source.position
        self._keys[-1] = ""
        key = yield from self._string("key")
        if key in self._stack[-1]:
            raise Broken(Fault(position=position, message=f"the key {key!r} stands twice"))
        self._keys[-1] = key
        if (yield from self._significant("between")) != ":":
            found = yield from self._here("between")
            raise source.broken(f"expected ':' after the key {key!r}, {shown(found)}")
        source.at += 1
        # The value exists from here on, so that an unfinished one still shows its key.
        self._stack[-1][key] = None

    def _put(self, value: Any) -> None:
        if not self._stack:
            self.root = value
        elif type(container := self._stack[-1]) is dict:
            container[self._keys[-1]] = value
        else:
            container.append(value)

    def _path(self) -> Path:
        innermost = len(self._stack) - 1
        return tuple(
            # Containers stand in their list as soon as they open; what is read in the innermost one does not yet.
            key if type(container) is dict else len(container) - (level < innermost)
            for level, (container, key) in enumerate(zip(self._stack, self._keys, strict=True))
        )

    def _string(self, place: str) -> Generator[None, None, str]:
        source, view = self.source, self.view
        path = self._path() if len(self._stack) <= self._depth + 1 and place == "value" else ()
        wanted = bool(path) and view.wants(path)
        pieces: list[str] = []
        source.at += 1
        try:
            while True:
                match = _ESCAPED_RUN.match(source.buffer, source.at)
                if match is not None:
                    pieces.append(match[0] if "\\" not in match[0] else json.loads(f'"{match[0]}"'))
                    if wanted:
                        view.characters(pieces[-1], source.position, match[0])
                    source.at = match.end()
                if source.at >= len(source.buffer):
                    if source.ended:
                        raise source.broken("a string in the JSON never ends")
                    source.state = view.state(self._path(), place)
                    yield
                    continue
                character = source.buffer[source.at]
                if character == '"':
                    source.at += 1
                    return "".join(pieces)
                if character != "\\":
                    raise source.broken(_wrong_character(character))
                source.state = view.state(self._path(), place)
                position = source.position
                pieces.append((yield from self._escape()))
                if wanted:
                    view.characters(pieces[-1], position, "")
        except Broken:
            if place == "value":
                self._put("".join(pieces))
            raise

    def _escape(self) -> Generator[None, None, str]:
        source = self.source
        text = yield from source.peek(2)
        if len(text) < 2:
            raise source.broken("a string in the JSON never ends", position=source.position + len(text))
        if text[1] != "u":
            if text[1] not in _ESCAPES:
                raise source.broken(f"{text!r} is no escape of JSON")
            source.at += 2
            return _ESCAPES[text[1]]
        text = yield from source.peek(6)
        code = _code(text)
        if code is None:
            raise source.broken(f"{text!r} is no escape of JSON")
        if not 0xD800 <= code < 0xE000:
            source.at += 6
            return chr(code)
        text = yield from source.peek(12)
        low = _code(text[6:])
        if code >= 0xDC00 or low is None or not 0xDC00 <= low < 0xE000:
            raise source.broken("half a surrogate pair is no character")
        source.at += 12
        return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))

    def _scalar(self, character: str) -> Generator[None, None, Any]:
        source = self.source
        is_number = character in _DIGITS
        run = _NUMBER_RUN if is_number else _WORD_RUN
        while True:
            match = run.match(source.buffer, source.at)
            assert match is not None
            if match.end() < len(source.buffer) or source.ended or len(match[0]) > MAX_NUMBER_LENGTH:
                break
            source.state = self.view.state(self._path(), "value")
            yield
        text = match[0]
        if not is_number:
            if text not in _WORDS:
                found = yield from self._here("value")
                raise source.broken(f"expected a JSON value, {shown(found)}")
            source.at += len(text)
            return _WORDS[text]
        if len(text) > MAX_NUMBER_LENGTH:
            raise source.broken(f"a number of more than {MAX_NUMBER_LENGTH} characters")
        number = _NUMBER.fullmatch(text)
        if number is None:
            raise source.broken(f"{text[:24]!r} is no number of JSON")
        if number[1] is None and number[2] is None:
            source.at += len(text)
            return int(text)
        value = JsonNumber(text)
        if not math.isfinite(value):
            raise source.broken(f"the number {text[:24]!r} is out of range")
        source.at += len(text)
        return value


def _code(text: str) -> int | None:
    match = _HEX4.match(text, 2)
    return int(match[0], 16) if match and text.startswith("\\u") else None


def _wrong_character(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        return "a byte that is not UTF-8"
    return f"the control character {character!r} stands unescaped in a string"


class Plain:
    """A view that wants nothing."""

    def state(self, path: Path, place: str) -> State:
        """See `View.state`."""
        return State.ARGUMENT_NAME if place == "key" else State.VALUE

    def wants(self, path: Path) -> bool:
        """See `View.wants`."""
        return False

    def characters(self, text: str, position: int, raw: str) -> None:
        """See `View.characters`."""


def parse_json(text: str) -> Any:
    """One whole JSON text.

    Raises:
        Broken: the first fault, trailing data included; positions in characters of `text`.
    """
    source = Source()
    source.push(text)
    source.ended = True
    reader = JsonReader(source, Plain(), positions_depth=0)
    _drain(reader.read())
    _drain(source.space())
    if source.at < len(source.buffer):
        raise source.broken("text after the JSON")
    return reader.root


def _drain(reading: Generator[None, None, Any]) -> None:
    for _ in reading:
        raise AssertionError("a source at its end asked for more")


def written(value: Any) -> str:
    """A JSON scalar as it was written."""
    return value.written if isinstance(value, JsonNumber) else json.dumps(value)
