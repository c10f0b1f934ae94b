"""A registry of a few documents on loopback, which can also misbehave."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests import loopback

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Stub:
    """What it serves, by `manifests/NAME` or `blobs/DIGEST`."""

    port: int = 0
    documents: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    challenge: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def repository(self) -> str:
        return f"127.0.0.1:{self.port}/some/image"

    def add(self, kind: str, media_type: str, value, *names: str) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        for name in (digest_of(data), *names):
            self.documents[f"{kind}/{name}"] = (media_type, data)
        return digest_of(data)

    def add_image(self, *tags: str, architecture: str = "amd64", labels=None, layers=(b"one", b"two")) -> str:
        """An image of one platform; returns its manifest's digest."""
        config = {
            "os": "linux",
            "architecture": architecture,
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "config": {"digest": self.add("blobs", "application/json", config), "size": 1, "mediaType": "x"},
            "layers": [{"digest": digest_of(b"z" + item), "size": len(item), "mediaType": LAYER} for item in layers],
        }
        return self.add("manifests", MANIFEST, manifest, *tags)

    def add_index(self, *tags: str, **platforms: str) -> str:
        entries = [
            {"digest": digest, "platform": {"os": "linux", "architecture": architecture}}
            for architecture, digest in platforms.items()
        ]
        entries.append({"digest": digest_of(b"?"), "platform": {"os": "unknown", "architecture": "unknown"}})
        return self.add("manifests", INDEX, {"schemaVersion": 2, "manifests": entries}, *tags)


@contextmanager
def serving() -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.asked.append(self.path)
            if self.path.startswith("/token"):
                self._answer(200, "application/json", b'{"token": "tick"}')
            elif stub.challenge and self.headers.get("Authorization") != "Bearer tick":
                self._answer(401, "application/json", b"{}", stub.challenge)
            else:
                key = self.path.removeprefix("/v2/some/image/")
                found = stub.documents.get(key)
                self._answer(200, *found) if found else self._answer(404, "application/json", b"{}")

        def _answer(self, status: int, media_type: str, data: bytes, challenge: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(data)))
            if challenge:
                self.send_header("WWW-Authenticate", challenge)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments) -> None: ...

    stub = Stub()
    with loopback.serving(Handler) as url:
        stub.port = int(url.rpartition(":")[2])
        yield stub
