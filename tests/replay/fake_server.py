"""An OpenAI-compatible server in this process, whose every answer a test scripts, faults included."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import serving

Handler = Callable[["Request"], "Response"]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    number: int
    """Of the POST requests, from 0."""


@dataclass
class Response:
    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Close the connection after so many bytes."""
    pause_seconds: float = 0.0
    """Before every line."""


@dataclass
class FakeServer:
    url: str
    requests: list[Request]


def message(content: str | None = None, calls: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    """An assistant's message with calls of (name, arguments)."""
    made: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        made["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    return made


def whole(reply: dict[str, Any], finish: str = "stop") -> Response:
    """A chat answer in one piece."""
    choice = {"index": 0, "message": reply, "finish_reason": finish}
    usage = {"completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}
    return Response(json.dumps({"choices": [choice], "usage": usage}).encode())


def streamed(deltas: list[dict[str, Any]], finish: str | None = "stop", **options: Any) -> Response:
    """The same as server-sent events."""
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        events.append({"choices": [], "usage": {"completion_tokens": 3}})
    lines = [b": a comment\n\n", *(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)]
    if finish:
        lines.append(b"data: [DONE]\n\n")
    return Response(b"".join(lines), content_type="text/event-stream", **options)


def error(status: int, text: str, **headers: str) -> Response:
    """An error as vLLM words it."""
    return Response(json.dumps({"error": {"message": text, "code": status}}).encode(), status=status, headers=headers)


@contextmanager
def fake_server(handler: Handler, models: Response | tuple[str, ...] = ("small",)) -> Iterator[FakeServer]:
    """Serve on a free port of the loopback interface."""
    seen: list[Request] = []
    lock = threading.Lock()

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            listed = (
                {"data": [{"id": name, "owned_by": "tests"} for name in models]} if isinstance(models, tuple) else {}
            )
            self._send(models if isinstance(models, Response) else Response(json.dumps(listed).encode()))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                request = Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body, len(seen))
                seen.append(request)
            self._send(handler(request))

        def _send(self, response: Response) -> None:
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", response.content_type)
            self.send_header("content-length", str(len(response.body)))
            self.end_headers()
            try:
                for line in response.body[: response.cut_after].splitlines(keepends=True):
                    time.sleep(response.pause_seconds)
                    self.wfile.write(line)
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):  # the client has given up, as some tests want
                pass
            if response.cut_after is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(Server) as url:
        yield FakeServer(url, seen)
