"""Credentials of a request: they pass through, and are never kept."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from urllib.parse import parse_qsl

KEPT_HEADERS = frozenset({"content-type", "content-encoding", "accept", "user-agent", "x-request-id"})
"""Headers that the journal keeps; of all others it keeps nothing."""

_KEY_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token", "cookie"}
)
_KEY_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token"})
_PLACEHOLDERS = frozenset(
    {"not-needed", "no-key-required", "sk-no-key-required", "placeholder", "lm-studio", "anything", "not_needed"}
)
_MIN_LENGTH = 8
"""Shorter ones (`EMPTY`, `none`, `dummy`) are what people write where a server asks for no key."""

WITHHELD = "[API key withheld]"


def kept_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Those headers that the journal keeps."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1")
        for name, value in headers
        if name.decode("latin-1").lower() in KEPT_HEADERS
    }


def keys_of(headers: Iterable[tuple[bytes, bytes]], query: bytes) -> frozenset[str]:
    """Every credential that the request carries in its headers or its query."""
    found: set[str] = set()
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        if name == "cookie":
            found.update(part.partition("=")[2].strip() for part in value.split(";"))
        elif name in _KEY_HEADERS:
            scheme, _, rest = value.partition(" ")
            token = rest.strip() or scheme
            found.add(token)
            if scheme.lower() == "basic":
                found.update(_basic(token))
    for name, value in parse_qsl(query.decode("latin-1")):
        if name.lower() in _KEY_PARAMETERS:
            found.add(value)
    return frozenset(key for key in found if len(key) >= _MIN_LENGTH and key.lower() not in _PLACEHOLDERS)


def withhold(text: str, keys: Iterable[str]) -> str:
    """`text` with every key replaced; longer keys first."""
    for key in sorted(keys, key=len, reverse=True):
        text = text.replace(key, WITHHELD)
    return text


def _basic(token: str) -> list[str]:
    try:
        user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return []
    return [user, password]
