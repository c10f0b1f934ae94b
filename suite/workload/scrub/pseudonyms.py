"""Pseudonyms: of the same length, with letters for letters and digits for digits, from a private key.

All other characters stay where they are, so that what an encoding, a path or an address is made of survives.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Protocol

from suite.workload.scrub.interface import Shape

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_VOWELS = "aeiou"
_CONSONANTS = "bcdfghjklmnpqrstvwz"
_ESCAPE = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|[bfnrt])")
_TRIES = 400
_PIECE_TRIES = 120
_MAX_MATCHED = 160
"""Longer values are not matched to a token count: their tokens are those of noise."""


class TokenCounter(Protocol):
    """What a tokenizer must tell so that token counts can be kept."""

    def count(self, text: str) -> int:
        """Tokens of `text`."""

    def split(self, text: str) -> list[str]:
        """The text's tokens as text; joined they are the text, or it is empty."""

    def words(self, shape: str) -> list[str]:
        """Tokens of this shape (`a` lower case, `A` upper case, `0` digit)."""


def ascii_lower(text: str) -> str:
    """Lower case of A to Z alone, so that the length stays."""
    return re.sub(r"[A-Z]+", lambda match: match[0].lower(), text)


def shape_of(text: str) -> str:
    """`a` for lower case and other letters, `A` for upper case, `0` for digits, other characters as they are."""
    return "".join("0" if c in "0123456789" else "A" if "A" <= c <= "Z" else "a" if c.isalnum() else c for c in text)


class Forge:
    """Makes pseudonyms."""

    def __init__(self, key: bytes, *, counter: TokenCounter | None = None) -> None:
        self._key = key
        self._counter = counter

    def make(self, value: str, shape: Shape, taken: Collection[str]) -> str:
        """A pseudonym of `value`, if possible not in `taken` (lower case)."""
        if shape == "ipv4":
            return self._ipv4(value)
        if shape == "ipv6":
            return self._ipv6(value)
        if shape == "mac":
            return self._mac(value)
        matched = self._counter is not None and len(value) <= _MAX_MATCHED
        best: str | None = None
        for attempt in range(_TRIES):
            candidate = None
            if matched and shape != "hex" and attempt < _PIECE_TRIES:
                candidate = self._from_tokens(value, attempt)
            candidate = _with_escapes(value, candidate or self._random(value, shape, attempt))
            if candidate == value or ascii_lower(candidate) in taken:
                continue
            best = best or candidate
            if not matched or self._same_count(value, candidate):
                return candidate
        return best or _with_escapes(value, self._random(value, shape, _TRIES))

    def _same_count(self, value: str, candidate: str) -> bool:
        assert self._counter is not None
        count = self._counter.count
        return count(value) == count(candidate) and count(" " + value) == count(" " + candidate)

    def _stream(self, *parts: object) -> _Stream:
        return _Stream(self._key, "\0".join(map(str, parts)))

    def _from_tokens(self, value: str, attempt: int) -> str | None:
        """Each token of the value replaced by a token of the same shape."""
        assert self._counter is not None
        stream = self._stream("tokens", ascii_lower(value), attempt)
        pieces = self._counter.split(value)
        if "".join(pieces) != value:
            return None
        made = []
        for piece in pieces:
            if not any(c.isalnum() for c in piece):
                made.append(piece)
                continue
            choices = self._counter.words(shape_of(piece))
            if not choices or not piece.isascii():
                return None
            made.append(choices[stream.below(len(choices))])
        return "".join(made)

    def _random(self, value: str, shape: Shape, attempt: int) -> str:
        stream = self._stream("text", ascii_lower(value), attempt)
        made = []
        first = True
        for c in value:
            if not c.isalnum():
                made.append(c)
                continue
            if c in "0123456789":
                # A number keeps its length, so it does not get a nought in front.
                made.append("123456789"[stream.below(9)] if first and c != "0" else str(stream.below(10)))
            else:
                letter = self._letter(c, shape, stream)
                made.append(letter.upper() if "A" <= c <= "Z" else letter)
            first = False
        return "".join(made)

    @staticmethod
    def _letter(c: str, shape: Shape, stream: _Stream) -> str:
        if shape == "hex":
            return "abcdef"[stream.below(6)]
        if shape == "name":
            choices = _VOWELS if c.lower() in _VOWELS else _CONSONANTS
            return choices[stream.below(len(choices))]
        return _LOWER[stream.below(26)]

    def _ipv4(self, value: str) -> str:
        octets = [int(part) for part in value.split(".")]
        made: list[int] = []
        for index, octet in enumerate(octets):
            prefix = ".".join(map(str, octets[:index]))
            made.append(self._cycle(f"4:{prefix}", octet, _octet_choices(index, octets, octet)))
        return ".".join(map(str, made))

    def _ipv6(self, value: str) -> str:
        whole = ipaddress.IPv6Address(value).exploded.split(":")
        left, double, right = value.partition("::")
        heads = left.split(":") if left else []
        tails = right.split(":") if right else []
        made_heads = [self._group(whole, index, group) for index, group in enumerate(heads)]
        made_tails = [self._group(whole, 8 - len(tails) + index, group) for index, group in enumerate(tails)]
        return ":".join(made_heads) + double + ":".join(made_tails)

    def _group(self, whole: list[str], index: int, group: str) -> str:
        if index == 0 or int(group, 16) == 0:
            return group  # the kind of address stays: global, unique local, link-local
        number = int(group, 16)
        zeros = len(group) - len(group.lstrip("0"))
        digits = len(group) - zeros
        choices = range(16 ** (digits - 1), 16**digits)
        made = self._cycle(f"6:{':'.join(whole[:index])}", number, choices)
        text = "0" * zeros + f"{made:x}"
        return text.upper() if group.upper() == group and group.lower() != group else text

    def _mac(self, value: str) -> str:
        canonical = re.sub(r"[^0-9a-f]", "", value.lower())
        stream = self._stream("mac", canonical)
        digits = [("0123456789abcdef")[stream.below(16)] for _ in canonical]
        digits[1] = canonical[1]  # whether it is one station's, and who gave it
        upper = value.upper() == value
        made = iter(digit.upper() if upper else digit for digit in digits)
        return "".join(next(made) if c.isalnum() else c for c in value)

    def _cycle(self, label: str, number: int, choices: Collection[int]) -> int:
        """The next of `choices` in a secret order that is one cycle: no two numbers meet, and none stays."""
        if number not in choices:
            return number
        order = _order(self._key, label, tuple(choices))
        return order[(order.index(number) + 1) % len(order)]


def _with_escapes(value: str, made: str) -> str:
    """`made` with the JSON escapes of `value`: a line's end inside a value stays one, and JSON text stays JSON."""
    if "\\" not in value:
        return made
    pieces = list(made)
    for match in _ESCAPE.finditer(value):
        pieces[match.start() : match.end()] = match[0]
    return "".join(pieces)


@lru_cache(maxsize=4096)
def _order(key: bytes, label: str, choices: tuple[int, ...]) -> list[int]:
    begun = hmac.new(key, f"{label}\0".encode(), hashlib.sha256)

    def rank(number: int) -> bytes:
        digest = begun.copy()
        digest.update(b"%d" % number)
        return digest.digest()

    return sorted(choices, key=rank)


def _octet_choices(index: int, octets: list[int], octet: int) -> list[int]:
    """Which numbers may stand for this octet: of as many digits, and of the same kind of network."""
    low, high = (0, 9) if octet < 10 else (10, 99) if octet < 100 else (100, 255)
    if index == 0:
        special = {0, 10, 100, 127, 169, 172, 192, 198, 203}
        return [] if octet in special else [n for n in range(low, min(high, 223) + 1) if n not in special]
    if index == 1:
        if octets[0] == 172 and 16 <= octet <= 31:
            return list(range(16, 32))
        if (octets[0], octet) in ((192, 168), (169, 254)):
            return []
        if octets[0] == 100 and 64 <= octet <= 127:
            return [n for n in range(64, 128) if len(str(n)) == len(str(octet))]
        if octets[0] in (172, 192, 169, 100, 198, 203):
            own = {16 <= octet <= 31}
            kept = {168, 254, 51, 0, *range(16, 32), *range(64, 128)} if own != {True} else set()
            return [n for n in range(low, high + 1) if n not in kept and n != 0]
    return [n for n in range(low, high + 1) if n not in (0, 255)]


class _Stream:
    """Numbers from a keyed hash in counter mode."""

    def __init__(self, key: bytes, label: str) -> None:
        self._key = key
        self._label = label.encode("utf-8", "surrogatepass")
        self._block = 0
        self._bytes = b""

    def below(self, limit: int) -> int:
        """The next number in `range(limit)`."""
        if len(self._bytes) < 8:
            self._bytes += hmac.digest(self._key, self._block.to_bytes(8, "big") + self._label, hashlib.sha256)
            self._block += 1
        number, self._bytes = self._bytes[:8], self._bytes[8:]
        return int.from_bytes(number, "big") % limit
