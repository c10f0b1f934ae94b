"""Names as parts of addresses."""

from __future__ import annotations

import re

from suite.files import sha256_bytes

_LONGEST = 60


def slug(text: str) -> str:
    """Lower-case letters, digits and hyphens; with a digest where something else was lost and two names might meet."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    kept = re.fullmatch(r"[A-Za-z0-9 ._-]*", text) is not None and len(plain) <= _LONGEST
    return (
        plain if kept and plain else f"{plain[:_LONGEST]}-{sha256_bytes(text.encode(errors='replace'))[:8]}".strip("-")
    )
