"""The JSON object `{"name": …, "arguments": {…}}` that several formats wrap in their own marks."""

from __future__ import annotations

from typing import Any

from suite.grade.interface import Fault, RawCall, State
from suite.grade.json_reader import JsonReader, Path
from suite.grade.source import Reading, Source


class ArgumentsView:
    """States inside a JSON object of arguments that lies at `prefix`."""

    def __init__(self, prefix: Path = (), *, name_at: Path | None = None) -> None:
        self.prefix = prefix
        self.name_at = name_at

    def state(self, path: Path, place: str) -> State:
        """See `json_reader.View`."""
        depth = len(self.prefix)
        if path[:depth] == self.prefix and len(path) > depth:
            if place == "key":
                return State.ARGUMENT_NAME
            return State.ENVELOPE if place == "between" and len(path) == depth + 1 else State.VALUE
        return State.NAME if path == self.name_at and place == "value" else State.ENVELOPE

    def wants(self, path: Path) -> bool:
        """See `json_reader.View`."""
        return False

    def characters(self, text: str, position: int, raw: str) -> None:
        """See `json_reader.View`."""


def read_arguments(source: Source, call: RawCall) -> Reading:
    """Read a JSON object of arguments into the call; another JSON value is recorded as its fault.

    Raises:
        Broken: the JSON's first fault; what was read is in `call.partial`.
    """
    yield from source.space()
    start = source.position
    reader = JsonReader(source, ArgumentsView())
    try:
        yield from reader.read()
    finally:
        source.state = State.ENVELOPE
        call.partial = reader.root
        _note_positions(call, reader, ())
    if isinstance(reader.root, dict):
        call.arguments = reader.root
    else:
        call.fail(Fault(position=start, message="the arguments are no JSON object"))


def read_call_object(source: Source, call: RawCall, *, arguments_key: str, optional: tuple[str, ...] = ()) -> Reading:
    """Read `{"name": …, arguments_key: {…}}` into the call; `optional` keys may stand beside them.

    Keys that are missing, unknown or mistyped are recorded; the JSON is whole then, and reading can go on.

    Raises:
        Broken: the JSON's first fault; name and arguments are filled in as far as they were read.
    """
    yield from source.space()
    start = source.position
    reader = JsonReader(source, ArgumentsView((arguments_key,), name_at=("name",)))
    try:
        yield from reader.read()
    finally:
        source.state = State.ENVELOPE
        root = reader.root
        if isinstance(root, dict):
            name = root.get("name")
            # A name is whole once another key stands behind it, or the object is at its end.
            call.name = name if isinstance(name, str) and name and len(root) > 1 else None
            call.partial = root.get(arguments_key)
            _note_positions(call, reader, (arguments_key,))
    fill(call, reader, reader.root, (), start=start, arguments_key=arguments_key, optional=optional)


def fill(
    call: RawCall,
    reader: JsonReader,
    value: Any,
    path: Path,
    *,
    start: int,
    arguments_key: str,
    optional: tuple[str, ...] = (),
) -> None:
    """Take name and arguments from the object read at `path`; keys missing, unknown or mistyped are faults."""

    def fail(message: str, *keys: str) -> None:
        call.fail(Fault(position=reader.positions.get((*path, *keys), start), message=message))

    if not isinstance(value, dict):
        fail("a call is a JSON object")
        return
    name, arguments = value.get("name"), value.get(arguments_key)
    call.partial = arguments
    if isinstance(name, str) and name:
        call.name = name
        call.name_position = reader.positions.get((*path, "name"))
    if isinstance(arguments, dict):
        call.arguments = arguments
        _note_positions(call, reader, (*path, arguments_key))
    for key in value:
        if key not in ("name", arguments_key, *optional):
            fail(f"a call has no key {key!r}", key)
    for key in ("name", arguments_key):
        if key not in value:
            fail(f"the call has no {key!r}")
    if call.name is None:
        fail("the name is no text", "name")
    if call.arguments is None:
        fail(f"{arguments_key!r} is no JSON object", arguments_key)


def _note_positions(call: RawCall, reader: JsonReader, prefix: Path) -> None:
    depth = len(prefix)
    for path, position in reader.positions.items():
        if len(path) == depth + 1 and path[:depth] == prefix and isinstance(path[-1], str):
            call.positions[path[-1]] = position
