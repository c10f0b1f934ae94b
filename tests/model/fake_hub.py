"""A model hub on the loopback interface: just enough of its interface for the client library to fetch a snapshot."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlparse

from tests.loopback import serving

REPOSITORY = "owner/tiny"
REVISION = "5f" * 20
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 98_304,
    "tokenizer.json": b"{}",
    "README.md": b"# card",
    "pytorch_model.bin": b"a pickle that nobody wants",
}


@dataclass
class Hub:
    """What a test can see and change of the running hub."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    fetched: list[str] = field(default_factory=list)
    cut_after_bytes: int | None = None
    """Large files: close the connection after so many bytes, and later ones at once."""
    tampered: bytes | None = None
    """What is sent as the large file in place of what is published under its hash."""
    refusal: tuple[int, str] | None = None
    """Status and `X-Error-Code` of every answer."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                cut = hub.cut_after_bytes
                if cut is not None and len(body) > 1_000_000:
                    self.wfile.write(body[:cut])
                    self.close_connection = True
                    hub.cut_after_bytes = 0
                else:
                    self.wfile.write(body)

        def do_GET(self) -> None:
            path = urlparse(self.path).path
            if hub.refusal is not None:
                status, code = hub.refusal
                self._answer(status, b"{}", {"X-Error-Code": code, "Content-Type": "application/json"})
            elif path == f"/api/models/{REPOSITORY}/revision/{REVISION}":
                siblings = [{"rfilename": name} for name in hub.files]
                self._json({"id": REPOSITORY, "sha": REVISION, "siblings": siblings})
            elif path == f"/api/models/{REPOSITORY}/tree/{REVISION}":
                self._json(
                    [
                        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                        for name, data in hub.files.items()
                    ]
                )
            elif path.startswith(f"/{REPOSITORY}/resolve/{REVISION}/"):
                self._file(path.rsplit("/", 1)[1])
            else:
                self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET  # noqa: N815

        def _json(self, value: object) -> None:
            self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def _file(self, name: str) -> None:
            data = hub.files[name]
            # Large files go by their SHA-256, small ones by their Git hash, as on the real hub.
            large = len(data) > 1_000_000
            published = (hashlib.sha256 if large else hashlib.sha1)(data).hexdigest()
            data = hub.tampered if large and hub.tampered is not None else data
            headers = {
                "ETag": f'"{published}"',
                "X-Repo-Commit": REVISION,
                "Accept-Ranges": "bytes",
            }
            wanted = self.headers.get("Range")
            if self.command == "GET":
                hub.fetched.append(f"{name} {wanted}" if wanted else name)
            if wanted and wanted.startswith("bytes=") and wanted.endswith("-"):
                first = int(wanted[6:-1])
                headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
                self._answer(206, data[first:], headers)
            else:
                self._answer(200, data, headers)

    with serving(Handler) as hub.url:
        yield hub
