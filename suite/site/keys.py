"""Keys by which a build knows what has to be made again."""

from __future__ import annotations

from typing import Any

from suite.files import canonical_json, sha256_bytes


def key_of(*parts: Any) -> str:
    """SHA-256 over JSON values (strings, numbers, lists, dictionaries).

    Raises:
        ValueError: a part holds NaN or an infinity.
    """
    return sha256_bytes(canonical_json(list(parts)))
