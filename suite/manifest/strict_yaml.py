"""YAML as manifests use it: one document of mappings, lists and scalars that mean what a reader thinks they mean.

The values are built from the parser's events, so that nothing is constructed which was not asked for: no tags, no
anchors, no merge keys, no implicit dates, floats, sexagesimal numbers or word booleans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from suite.manifest.problems import InvalidManifest, Place, Problem

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_NODES = 10_000
MAX_INTEGER_DIGITS = 18

KeyPath = tuple[str | int, ...]

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)\Z")
# libyaml where PyYAML was built with it: the same events, about ten times faster.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One parsed file: plain values, and where each key or list item stands."""

    value: dict[str, Any]
    places: dict[KeyPath, Place] = field(repr=False)
    """Key path -> place of the key (mappings) or of the item (lists); `()` is the file's first line."""


def parse_file(path: Path) -> Document:
    """Read and parse one file.

    Raises:
        InvalidManifest: absent, unreadable, too large, or anything `parse_text` refuses.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refusal(path, 0, f"cannot be read: {reason}{_nearest(path)}") from error
    if len(data) > MAX_FILE_BYTES:
        raise _refusal(path, 1, f"larger than {MAX_FILE_BYTES // 1024} KiB, the limit for a manifest")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refusal(path, line, "not UTF-8 text") from error
    return parse_text(text, path)


def parse_text(text: str, file: Path) -> Document:
    """Parse one YAML document whose top level is a mapping.

    Plain scalars become `true`/`false` -> bool, `null` -> None, decimal integers -> int; everything else stays the
    text it is. Quoted and block scalars are always text.

    Args:
        text: The document.
        file: Named in errors.

    Raises:
        InvalidManifest: not YAML; several documents; anchors, aliases, tags or directives; a key that stands twice or
            is not text; an empty value; control characters; nesting deeper than 16; more than 10,000 nodes.
    """
    builder = _Builder(file)
    try:
        value = builder.document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise _refusal(file, line, f"not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:  # the reader's error for characters YAML forbids carries no mark
        raise _refusal(file, 1, f"not YAML: {str(error).splitlines()[0]}") from error
    return Document(value=value, places=builder.places)


def _nearest(path: Path) -> str:
    """The file that was probably meant, where a manifest of nearly that name lies beside it."""
    if path.exists():
        return ""
    near = get_close_matches(path.name, [file.name for file in path.parent.glob("*.yaml")], n=1, cutoff=0.8)
    return f"; the nearest there is {near[0]}" if near else ""


def _refusal(file: Path, line: int, message: str) -> InvalidManifest:
    return InvalidManifest([Problem(place=Place(file=file, line=line), key="", message=message)])


class _Builder:
    """Turns parser events into plain values, remembering places."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.places: dict[KeyPath, Place] = {(): Place(file=file, line=1)}
        self.num_nodes = 0

    def place(self, event: Any) -> Place:
        return Place(file=self.file, line=event.start_mark.line + 1)

    def refuse(self, event: Any, message: str) -> InvalidManifest:
        return InvalidManifest([Problem(place=self.place(event), key="", message=message)])

    def document(self, events: Iterator[Any]) -> dict[str, Any]:
        value: dict[str, Any] | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if value is not None:
                    raise self.refuse(event, "a second document; a manifest is one document")
                if event.version or event.tags:
                    raise self.refuse(event, "directives (%YAML, %TAG) are not allowed")
                first = next(events)
                if not isinstance(first, yaml.MappingStartEvent):
                    raise self.refuse(first, "the file must be a mapping of keys to values")
                value = self.node(first, events, ())
        if value is None:
            raise _refusal(self.file, 1, "the file is empty")
        return value

    def node(self, event: Any, events: Iterator[Any], path: KeyPath) -> Any:
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES:
            raise self.refuse(event, f"more than {MAX_NODES:,} values")
        if len(path) > MAX_DEPTH:
            raise self.refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self.refuse(event, "anchors and aliases (& and *) are not allowed; use `extends`")
        if event.tag is not None:
            raise self.refuse(event, f"tags are not allowed: {event.tag}")
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(events, path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(events, path)
        return self.scalar(event)

    def mapping(self, events: Iterator[Any], path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for event in events:
            place = self.place(event)
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
                raise self.refuse(event, "a key must be plain text")
            key = self.text(event)
            if key == "<<":
                raise self.refuse(event, "merge keys (<<) are not allowed; use `extends`")
            if key in result:
                first = self.places[(*path, key)].line
                raise self.refuse(event, f"the key {key!r} stands twice (first on line {first})")
            self.places[(*path, key)] = place
            result[key] = self.node(next(events), events, (*path, key))
        return result

    def sequence(self, events: Iterator[Any], path: KeyPath) -> list[Any]:
        result: list[Any] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            here = (*path, len(result))
            self.places[here] = self.place(event)
            result.append(self.node(event, events, here))
        return result

    def scalar(self, event: Any) -> Any:
        text = self.text(event)
        if event.style:  # quoted or block; plain is "" from libyaml and None from PyYAML
            return text
        if text == "":
            raise self.refuse(event, 'an empty value; write a value, null, or "" for empty text')
        if text in ("true", "false"):
            return text == "true"
        if text == "null":
            return None
        if _INTEGER.match(text):
            if len(text.lstrip("-")) > MAX_INTEGER_DIGITS:
                raise self.refuse(event, f"an integer of more than {MAX_INTEGER_DIGITS} digits; quote it if it is text")
            return int(text)
        return text

    def text(self, event: Any) -> str:
        text: str = event.value
        # Besides control characters this keeps out bidirectional overrides, which show a reader another text than the
        # one that is used.
        if not text.isprintable() and not all(c.isprintable() or c == "\n" for c in text):
            raise self.refuse(event, "control or invisible characters in a text")
        return text
