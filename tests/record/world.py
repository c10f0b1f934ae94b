"""A server of the OpenAI kind that does as the request says, and a running proxy before it."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.observer import SilentObserver
from suite.record.proxy import Counts
from suite.record.server import listen, serve
from suite.record.upstream import Upstream


def chat_chunk(index: int, **delta: object) -> bytes:
    value = {"id": "chat-1", "model": "fake", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return f"data: {json.dumps(value | {'number': index})}\n\n".encode()


def finish_chunk(reason: str = "stop") -> bytes:
    value = {"id": "chat-1", "model": "fake", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return f"data: {json.dumps(value)}\n\ndata: [DONE]\n\n".encode()


def answer(content: str | None = "ok", **more: object) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    return {
        "id": "chat-1",
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }


@dataclass
class Fake:
    """Answers each request by what its body's `do` says; keeps the raw requests."""

    requests: list[bytes] = field(default_factory=list)
    dropped: int = 0
    """Connections that the other side left in the middle of an answer."""
    port: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")), 0
                )
                body = await reader.readexactly(length)
                self.requests.append(head + body)
                if not await self._answer(body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        try:
            do = json.loads(body).get("do", {}) if body else {}
        except ValueError:
            do = {}
        if "pieces" not in do:
            data = json.dumps(do.get("answer", answer())).encode()
            status, encoding = do.get("status", 200), b""
            if do.get("compressed"):
                data, encoding = gzip.compress(data), b"content-encoding: gzip\r\n"
            writer.write(
                b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nx-request-id: r1\r\nset-cookie: a=b\r\n"
                b"%bcontent-length: %d\r\n\r\n" % (status, encoding, len(data)) + data
            )
            await writer.drain()
            return True
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            await asyncio.sleep(do.get("before_first", 0))
            for number, text in enumerate(do["pieces"]):
                if number == do.get("cut_at"):
                    writer.transport.abort()
                    return False
                piece = text.encode("latin-1")
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(do.get("pause", 0))
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            self.dropped += 1
            raise
        return True


@contextmanager
def fake_server() -> Iterator[Fake]:
    fake = Fake()
    started = threading.Event()
    loop = asyncio.new_event_loop()

    async def start() -> asyncio.Server:
        server = await asyncio.start_server(fake.handle, "127.0.0.1", 0, backlog=256)
        fake.port = server.sockets[0].getsockname()[1]
        started.set()
        return server

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(start())
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(10)
    try:
        yield fake
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


@dataclass
class Running:
    """A proxy in a thread."""

    url: str
    folder: Path
    counts: Counts | None = None
    stop: Callable[[], None] | None = None


@contextmanager
def proxy(upstream: str, folder: Path, **options: Any) -> Iterator[Running]:
    started = threading.Event()
    listener = listen("127.0.0.1", 0)
    running = Running(url=f"http://127.0.0.1:{listener.getsockname()[1]}", folder=folder)

    def on_start(stop: Callable[[], None]) -> None:
        running.stop = stop
        started.set()

    def run() -> None:
        options.setdefault("observer", SilentObserver())
        running.counts = serve(Upstream.parse(upstream), folder, listener, on_start=on_start, **options)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(10)
    try:
        yield running
    finally:
        assert running.stop is not None
        running.stop()
        thread.join(30)
        assert not thread.is_alive()
        listener.close()
