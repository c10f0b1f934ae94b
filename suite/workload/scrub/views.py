"""The same text as it reads when an encoding is taken off, each character knowing where it stands in the original."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_JSON = re.compile(r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])')
_JSON_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_URL = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_HTML = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#[xX][0-9a-fA-F]{1,5});")


@dataclass(frozen=True, slots=True)
class View:
    """A reading of a text: character i stands at `starts[i]` to `starts[i + 1]` of the original."""

    text: str
    starts: tuple[int, ...] | range
    is_url: bool = False

    def spell(self, character: str) -> str:
        """A letter, digit or character of base64 as the original would have it."""
        return f"%{ord(character):02X}" if self.is_url and not character.isalnum() else character


def views(text: str) -> Iterator[View]:
    """The text itself, then without JSON escapes (once and twice), URL encoding and character references."""
    raw = View(text, range(len(text) + 1))
    yield raw
    json_once = _without(raw, _JSON, _json_character)
    if json_once is not None:
        yield json_once
        json_twice = _without(json_once, _JSON, _json_character)
        if json_twice is not None:
            yield json_twice
    url = _without(raw, _URL, _url_characters)
    if url is not None:
        yield View(url.text, url.starts, is_url=True)
    references = _without(raw, _HTML, html.unescape)
    if references is not None:
        yield references


def _json_character(match: str) -> str:
    if match[1] == "u":
        units = bytes.fromhex(match.replace("\\u", ""))
        return units.decode("utf-16-be", errors="surrogatepass")
    return _JSON_SHORT.get(match[1], match[1])


def _url_characters(match: str) -> str:
    return bytes.fromhex(match.replace("%", "")).decode("utf-8", errors="replace")


def _without(view: View, escape: re.Pattern[str], decode: object) -> View | None:
    if escape.search(view.text) is None:
        return None
    assert callable(decode)
    pieces: list[str] = []
    starts: list[int] = []
    position = 0
    for match in escape.finditer(view.text):
        pieces.append(view.text[position : match.start()])
        starts.extend(view.starts[position : match.start()])
        decoded: str = decode(match[0])
        # A run of escapes may make several characters; each takes a fair part of it, which tells neighbours apart.
        width = match.end() - match.start()
        sizes = _widths(match[0], decoded, width)
        offset = match.start()
        for character, size in zip(decoded, sizes, strict=True):
            pieces.append(character)
            starts.append(view.starts[offset])
            offset += size
        position = match.end()
    pieces.append(view.text[position:])
    starts.extend(view.starts[position:])
    return View("".join(pieces), tuple(starts))


def _widths(escaped: str, decoded: str, width: int) -> list[int]:
    """How much of `escaped` each character of `decoded` takes."""
    if len(decoded) == 1:
        return [width]
    sizes = [3 * len(character.encode("utf-8", errors="replace")) for character in decoded]
    if escaped.startswith("%") and sum(sizes) == width:
        return sizes
    # Bytes that are no text: the first character takes all of it, so that nothing of it is edited.
    return [width, *([0] * (len(decoded) - 1))]


_LINES64 = r"(?:[A-Za-z0-9+/]{60,76}\r?\n){1,400}[A-Za-z0-9+/]{2,76}={0,2}"
_BLOCK = re.compile(
    rf"(?<![A-Za-z0-9+/=_-])(?:(?P<lines>{_LINES64})|(?P<hex>(?:[0-9a-f]{{2}}){{12,4000}}|(?:[0-9A-F]{{2}}){{12,4000}})"
    r"|(?P<b64>[A-Za-z0-9+/]{12,40000}={0,2})|(?P<url64>[A-Za-z0-9_-]{12,40000}={0,2}))(?![A-Za-z0-9+/=_-])"
)
_PRINTABLE_SHARE = 0.97

Codec = Literal["base64", "urlsafe", "hex"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A run of base64 or hex that holds text."""

    start: int
    end: int
    source: str
    codec: Codec
    text: str
    basic: bool
    """It is the user and password of HTTP basic authentication."""

    def encode(self, text: str) -> str:
        """`text` in the block's own alphabet, padding, case and line breaks."""
        data = text.encode()
        if self.codec == "hex":
            made = data.hex()
            return made.upper() if self.source.upper() == self.source else made
        encoder = base64.urlsafe_b64encode if self.codec == "urlsafe" else base64.b64encode
        made = encoder(data).decode()
        if not self.source.endswith("="):
            made = made.rstrip("=")
        result: list[str] = []
        characters = iter(made)
        for old in self.source:
            result.append(old if old in "\r\n" else next(characters, ""))
        return "".join(result) + "".join(characters)


def blocks(text: str) -> Iterator[Block]:
    """Every run that decodes to text and comes back byte for byte when encoded again."""
    for match in _BLOCK.finditer(text):
        source = match[0]
        before = text[max(0, match.start() - 24) : match.start()]
        basic = re.search(r"(?i)(?:\bbasic |[\"']?_?auth[\"']?\s?[:=]\s?[\"']?)$", before) is not None
        codecs: tuple[Codec, ...] = ("hex", "base64") if match["hex"] else ("base64", "urlsafe")
        for codec in codecs:
            decoded = _decode(source, codec)
            if decoded is None:
                continue
            block = Block(
                start=match.start(),
                end=match.end(),
                source=source,
                codec=codec,
                text=decoded,
                basic=basic and ":" in decoded,
            )
            if block.encode(decoded) == source:
                yield block
                break


def _decode(source: str, codec: Codec) -> str | None:
    bare = re.sub(r"[\r\n]", "", source)
    try:
        if codec == "hex":
            data = bytes.fromhex(bare)
        else:
            padded = bare.rstrip("=") + "=" * (-len(bare.rstrip("=")) % 4)
            data = base64.b64decode(padded, altchars=b"-_" if codec == "urlsafe" else None, validate=True)
        text = data.decode()
    except (binascii.Error, ValueError):
        return None
    good = sum(character.isprintable() or character in "\n\r\t" for character in text)
    return text if len(text) >= 6 and good >= _PRINTABLE_SHARE * len(text) else None
