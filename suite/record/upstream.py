"""The server that the proxy stands before: where a client's path leads."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from suite.errors import InvalidInput

_DEFAULT_PORTS = {"http": 80, "https": 443}
RECORDED = ("/chat/completions", "/completions", "/responses")
"""Ends of the paths whose exchanges are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """Scheme, host, port and base path."""

    scheme: str
    host: str
    port: int
    base: str
    """Path that a client's `/v1` stands for."""

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """`http://host:8000`, with or without `/v1` or another base path.

        Raises:
            InvalidInput: no such URL, or one that carries a password, a query or a fragment.
        """
        hint = "for example http://127.0.0.1:8000"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidInput(f"not a URL: {error}", where="--upstream", hint=hint) from error
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise InvalidInput("not the URL of an HTTP server", where="--upstream", hint=hint)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InvalidInput(
                "an upstream URL carries no user, query or fragment",
                where="--upstream",
                hint="the client sends its API key as it would without the proxy",
            )
        return cls(
            scheme=parts.scheme,
            host=parts.hostname,
            port=port or _DEFAULT_PORTS[parts.scheme],
            base=parts.path.rstrip("/") or "/v1",
        )

    @property
    def origin(self) -> str:
        """Without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = _DEFAULT_PORTS[self.scheme] == self.port
        return f"{self.scheme}://{host}" + ("" if default else f":{self.port}")

    def path(self, raw_path: bytes) -> bytes:
        """Where a client's path leads: `/v1` is the base, anything else (`/health`) stays as it is."""
        if raw_path == b"/v1" or raw_path.startswith(b"/v1/"):
            return self.base.encode() + raw_path[len(b"/v1") :]
        return raw_path


def is_recorded(method: str, path: str) -> bool:
    """Whether an exchange is kept."""
    return method == "POST" and path.rstrip("/").endswith(RECORDED)
