"""A small server for looking at a built site on the machine that built it."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite
from suite.site.build import MARKER


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the library never prints."""

    def translate_path(self, path: str) -> str:
        """The file that is asked for; one that cannot be where a name holds NUL, which no file's does."""
        return super().translate_path(path).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def end_headers(self) -> None:
        # What a host should send as well; pages carry their own policy.
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()


def open_server(folder: Path, *, port: int) -> ThreadingHTTPServer:
    """A server of `folder` on the loopback interface; call its `serve_forever`, and close it.

    Args:
        folder: A built site.
        port: 0 for any free one.

    Raises:
        InvalidInput: no site is there.
        MissingPrerequisite: the port is taken.
    """
    if not (folder / MARKER).exists():
        raise InvalidInput("no built site is here", where=str(folder), hint="run `suite site build --out DIR` first")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise MissingPrerequisite(
            f"the port cannot be used: {error.strerror}", where=str(port), hint="name another with --port, or 0"
        ) from error
