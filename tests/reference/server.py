"""A small web server on loopback that knows byte ranges, counts what it sends, and can break off."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.loopback import serving


@dataclass
class Site:
    """What is served, and how."""

    data: bytes
    """At every path that `others` does not name, but for statements."""
    others: dict[str, bytes] = field(default_factory=dict)
    """End of a path to its file."""
    ranges: bool = True
    break_at: int | None = None
    """Place in the file at which every connection is closed; None once the line is well again."""
    status: int = 200
    encoding: str | None = None
    url: str = ""
    requests: list[str | None] = field(default_factory=list)
    """The Range header of each request."""
    paths: list[str] = field(default_factory=list)
    """The path of each request."""
    authorizations: list[str | None] = field(default_factory=list)
    redirect: str | None = None
    """Where every request is sent on to."""
    sent: int = 0


@contextmanager
def serve(data: bytes, **options: object) -> Iterator[Site]:
    site = Site(data=data, **options)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            found = [data for end, data in site.others.items() if self.path.endswith(end)]
            if not found and self.path.endswith(".dsse.json"):
                self.send_error(404)
                return
            whole = found[0] if found else site.data
            site.requests.append(wanted)
            site.authorizations.append(self.headers.get("Authorization"))
            if site.redirect is not None:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            site.paths.append(self.path)
            if site.status != 200:
                self.send_error(site.status)
                return
            ranged = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted) if wanted and site.ranges else None
            start = int(ranged[1]) if ranged else 0
            body = whole[start : int(ranged[2]) + 1 if ranged and ranged[2] else None]
            if start and not body:
                self.send_error(416)
                return
            self.send_response(206 if ranged else 200)
            if ranged:
                self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(whole)}")
            if site.encoding:
                self.send_header("Content-Encoding", site.encoding)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if site.break_at is not None:
                body = body[: max(site.break_at - start, 0)]
                self.close_connection = True
            try:
                for at in range(0, len(body), 4096):
                    self.wfile.write(body[at : at + 4096])
                    site.sent += len(body[at : at + 4096])
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as address:
        site.url = address + "/packs/reference.tar"
        yield site
