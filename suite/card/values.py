"""Front matter and configuration blocks (YAML, TOML, JSON) as scalars with their key paths and lines."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json

MAX_VALUES = 50_000
MAX_DEPTH = 40


def flat_values(text: str, *, line: int, kind: str, where: str) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """(key path, value, line) of every scalar.

    Args:
        text: The block.
        line: The card's line at which it begins.
        kind: `yaml`, `toml` or `json`.
        where: The card, for messages.

    Raises:
        InvalidInput: not of that kind, or more than a card holds.
    """
    if kind == "yaml":
        yield from _flat_yaml(text, line=line, where=where)
        return
    try:
        value = tomllib.loads(text) if kind == "toml" else strict_json(text.encode(), where=f"{where}:{line}")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"front matter is no TOML: {error}", where=f"{where}:{line}") from error
    for number, (path, scalar) in enumerate(_walk(value, ())):
        if number > MAX_VALUES or len(path) > MAX_DEPTH:
            raise InvalidInput("more values, or deeper ones, than a card has", where=f"{where}:{line}")
        yield path, scalar, line + _line_of(text, path, scalar)


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, path)
    elif value is not None:
        yield path, str(value)


def _line_of(text: str, path: tuple[str, ...], scalar: str) -> int:
    """Lines before the first line that holds both the key and the value; 0 where none does."""
    key = path[-1] if path else ""
    return next((i for i, part in enumerate(text.split("\n")) if key in part and scalar[:60] in part), 0)


def _flat_yaml(text: str, *, line: int, where: str) -> Iterator[tuple[tuple[str, ...], str, int]]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # A few aliases can stand for billions of values.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise InvalidInput("aliases (*) in front matter are not read", where=f"{where}:{line}")
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = line + (mark.line if mark else 0)
        told = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InvalidInput(f"front matter is no YAML: {told}", where=f"{where}:{at}", hint="mend that line") from error
    except RecursionError as error:
        raise InvalidInput("front matter is nested too deeply", where=f"{where}:{line}") from error
    waiting: list[tuple[tuple[str, ...], Any]] = [] if root is None else [((), root)]
    seen = 0
    while waiting:
        path, node = waiting.pop()
        seen += 1
        if seen > MAX_VALUES or len(path) > MAX_DEPTH:
            raise InvalidInput("more values, or deeper ones, than a card has", where=f"{where}:{line}")
        if isinstance(node, yaml.MappingNode):
            pairs = [((*path, str(getattr(key, "value", ""))), item) for key, item in node.value]
            waiting += reversed(pairs)
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(path, item) for item in reversed(node.value)]
        elif node.value.strip():
            yield path, " ".join(node.value.split()), line + node.start_mark.line
