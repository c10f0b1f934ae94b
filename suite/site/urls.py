"""Which addresses outside the site may stand in a link."""

from __future__ import annotations

from urllib.parse import urlsplit

HOSTS = frozenset(
    {
        "github.com",
        "huggingface.co",
        "forum.level1techs.com",
        "docs.vllm.ai",
        "hub.docker.com",
        "michaelbommarito.com",
        "www.spheron.network",
    }
)
"""Hosts of the sources that the repository's own data names."""


def allowed_url(text: str) -> str | None:
    """`text` if it is an https address of a known host and of plain characters, else None: then there is no link."""
    if not text.isascii() or not text.isprintable() or any(char in text for char in " \"'<>\\^`{|}"):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme != "https" or port is not None or "@" in parts.netloc or parts.hostname not in HOSTS:
        return None
    return text
