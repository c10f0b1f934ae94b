"""Strict JSON of a stranger, bounded before a parser sees it: a few bytes may otherwise become much memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.intake.limits import Limits
from suite.intake.refusal import Refused

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NUMBER = re.compile(rb"[-+.0-9eE]+")
_WHOLE = re.compile(rb"(?<![.0-9eE+-])-?[0-9]{19,}(?![.0-9eE])")
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_INTEGER_BITS = 63
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Control characters other than tab and line breaks, surrogates, separators of lines and paragraphs, directions.
_ACTS = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{''.join(sorted(_DIRECTION))}]")
_MARKUP = re.compile(r"<[a-zA-Z/!?]|&(#[0-9xX]|[a-zA-Z]+;)|javascript:|\]\(", re.IGNORECASE)


def bounded_json(data: bytes, *, where: str, limits: Limits) -> Any:
    """Parse JSON whose depth, numbers, strings and count of values are known to be bounded.

    Raises:
        Refused: with a code for each bound, for duplicate keys, for NaN and infinities, and for what is no JSON.
    """
    _check_shape(data, where, limits)
    try:
        return strict_json(data, where=where)
    except InvalidInput as error:
        raise Refused(_code(error.message), error.message, where=where) from error


def _check_shape(data: bytes, where: str, limits: Limits) -> None:
    if len(data) > limits.json_bytes:
        raise Refused("file-too-large", f"{len(data):,} bytes; at most {limits.json_bytes:,} are taken in", where=where)
    longest = 0

    def blank(match: re.Match[bytes]) -> bytes:
        nonlocal longest
        longest = max(longest, match.end() - match.start())
        return b'"'

    rest = _STRING.sub(blank, data)
    if longest > limits.json_string_bytes:
        raise Refused(
            "json-string", f"a string of {longest:,} bytes; at most {limits.json_string_bytes:,}", where=where
        )
    # Each value but the first of its container follows a comma, each value of an object a colon.
    values = 1 + sum(map(rest.count, (b",", b":", b"[", b"{")))
    if values > limits.json_values:
        raise Refused("json-values", f"about {values:,} values; at most {limits.json_values:,}", where=where)
    brackets = np.frombuffer(rest.translate(None, _ALL_BUT_BRACKETS), dtype=np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    if 2 * int(opening.sum()) != brackets.size:
        raise Refused("not-json", "brackets that do not match", where=where)
    depth = int(np.cumsum(np.where(opening, np.int8(1), np.int8(-1)), dtype=np.int32).max(initial=0))
    if depth > limits.json_depth:
        raise Refused("json-depth", f"nested {depth:,} deep; at most {limits.json_depth}", where=where)
    longest = max((match.end() - match.start() for match in _NUMBER.finditer(rest)), default=0)
    if longest > limits.json_number_characters:
        raise Refused("json-number", f"a number of {longest:,} characters", where=where)
    for match in _WHOLE.finditer(rest):
        if int(match.group()).bit_length() > _INTEGER_BITS:
            raise Refused("json-number", "a whole number of more than 64 bits", where=where)


def _code(message: str) -> str:
    if "stands twice" in message:
        return "json-duplicate-key"
    if "not a number that JSON allows" in message:
        return "json-not-finite"
    return "json-not-utf8" if "UTF-8" in message else "not-json"


def check_shown_text(value: Any, *, where: str, markup: bool = True) -> None:
    """Refuse strings, keys included, that would act on a terminal or a page that shows them.

    Args:
        value: Parsed JSON.
        where: The file.
        markup: Whether markup is refused as well.

    Raises:
        Refused: a control character, a change of direction, or markup; the key is named.
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [(f"{key}.{name}" if key else name, inner) for name, inner in item.items()]
            waiting += [(key, name) for name in item]
        elif isinstance(item, list):
            waiting += [(key, inner) for inner in item]
        elif isinstance(item, str):
            check_text(item, where=f"{where}: {key}" if key else where)
            if markup and _MARKUP.search(item):
                raise Refused("markup", "markup in a text", where=f"{where}: {key}", hint="texts are plain")


def check_text(text: str, *, where: str) -> None:
    """Refuse text with control characters other than line breaks and tabs, or with changes of direction.

    Raises:
        Refused: the first such character, by its number.
    """
    found = _ACTS.search(text)
    if found is None:
        return
    place = f"character {found.start() + 1} (U+{ord(found.group()):04X})"
    if found.group() in _DIRECTION:
        raise Refused("text-direction", f"{place} turns the direction of text", where=where)
    raise Refused("text-control", f"{place} is a control character", where=where)
