"""The proxy itself, as an ASGI application: bytes in, bytes out, every byte journaled before it goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import anyio
import httpx2
from starlette.types import Message, Receive, Scope, Send

from suite.observer import Observer
from suite.record.answers import Answer, answer_of
from suite.record.journal import Journal, encode_body
from suite.record.keys import kept_headers, keys_of, withhold
from suite.record.upstream import Upstream, is_recorded

# RFC 9110, section 7.6.1, and `expect`, which the server under this application answers itself.
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"expect"}
)  # fmt: skip
_ASK = b'"return_token_ids":true,'

Headers = list[tuple[bytes, bytes]]


def http_client() -> httpx2.AsyncClient:
    """A client that waits as long as the proxy's own client does, and adds nothing of its own."""
    return httpx2.AsyncClient(
        timeout=None,  # the client's own time limit ends an exchange
        # Servers commonly close idle connections after 5 s; sending on one at that moment would lose a request.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2.0),
        follow_redirects=False,
        trust_env=False,
    )


@dataclass(kw_only=True, slots=True)
class Counts:
    """What has passed."""

    recorded: int = 0
    passed: int = 0
    """Exchanges of other paths, which are not kept."""
    cut: int = 0
    """Recorded exchanges that did not end as they should."""
    withheld: int = 0
    """Recorded exchanges whose bytes were not kept, since the client's own key stood in them."""


class Proxy:
    """Forwards every request to one upstream."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        client: httpx2.AsyncClient,
        journal: Journal,
        observer: Observer,
        ask_token_ids: bool = False,
    ) -> None:
        """Args:
        upstream: Where requests go.
        client: From `http_client`.
        journal: Where exchanges are kept.
        observer: Told of every recorded exchange.
        ask_token_ids: Add `return_token_ids` to requests that say nothing of it: the one change to any byte.
        """
        self._upstream = upstream
        self._client = client
        self._journal = journal
        self._observer = observer
        self._ask_token_ids = ask_token_ids
        self._numbers = count(1)
        self._warned = False
        self.counts = Counts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        body = await _read_body(receive)
        if body is None:
            return  # the client left before its request was whole: nothing was sent on
        path: str = scope["path"]
        headers: Headers = list(scope["headers"])
        tape: _Tape | None = None
        if is_recorded(scope["method"], path):
            if self._ask_token_ids:
                body = ask_for_ids(body)
            tape = _Tape(
                journal=self._journal,
                number=next(self._numbers),
                keys=keys_of(headers, scope["query_string"]),
                path=path,
            )
            tape.request(headers, body)
            self.counts.recorded += 1
        else:
            self.counts.passed += 1
        request = self._request(scope, headers, body)
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
            how, error = "client_closed", None
            response: httpx2.Response | None = None
            try:
                try:
                    response = await self._client.send(request, stream=True)
                except httpx2.HTTPError as failure:
                    how, error = "upstream_unreachable", _text(failure)
                    await _bad_gateway(send, self._upstream.origin, error)
                else:
                    how, error = await _pass_on(response, send, tape)
            finally:
                with anyio.CancelScope(shield=True):
                    if response is not None:
                        await response.aclose()
                if tape is not None:
                    tape.end(how, error)
                    self._report(tape, how, error)
            group.cancel_scope.cancel()

    def _request(self, scope: Scope, headers: Headers, body: bytes) -> httpx2.Request:
        kept = [(k, v) for k, v in headers if k not in _HOP_BY_HOP | {b"host", b"content-length"}]
        if body or any(k == b"content-length" for k, _ in headers):
            kept.append((b"content-length", str(len(body)).encode()))
        raw_path = self._upstream.path(scope.get("raw_path") or scope["path"].encode())
        query = scope["query_string"]
        url = httpx2.URL(self._upstream.origin).copy_with(raw_path=raw_path + (b"?" + query if query else b""))
        return httpx2.Request(scope["method"], url, headers=kept, content=body or None)

    def _report(self, tape: _Tape, how: str, error: str | None) -> None:
        if how != "complete" or tape.status != 200:
            self.counts.cut += 1
        self.counts.withheld += tape.held
        if self._journal.failure is not None and not self._warned:
            self._warned = True
            self._observer.warn(f"recording has stopped ({self._journal.failure}); traffic still passes")
        self._observer.note(tape.line(how, error))


@dataclass(kw_only=True, slots=True)
class _Tape:
    """Writes one exchange to the journal."""

    journal: Journal
    number: int
    keys: frozenset[str]
    path: str
    status: int | None = None
    held: bool = False
    _begun: float = field(default_factory=time.perf_counter)
    _first_ms: float | None = None
    _size: int = 0
    _pieces: int = 0
    _response_headers: dict[str, str] = field(default_factory=dict)
    _response_body: bytearray = field(default_factory=bytearray)

    def request(self, headers: Headers, body: bytes) -> None:
        """Note the request. If the client's own key stands in its body, only what is free of it is kept."""
        text = body.decode(errors="replace")
        self.held = any(key in text for key in self.keys)
        if self.held:
            body = withhold(text, self.keys).encode()
        self._write(
            "request",
            time=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            path=self.path,
            headers=kept_headers(headers),
            **encode_body(body),
        )

    def response(self, status: int, headers: Headers) -> None:
        """Note status and headers."""
        self.status = status
        self._response_headers = kept_headers(headers)
        self._write("response", ms=self._ms(), status=status, headers=self._response_headers)

    def data(self, piece: bytes) -> None:
        """Note one piece of the answer."""
        ms = self._ms()
        if self._first_ms is None:
            self._first_ms = ms
        self._size += len(piece)
        if self.held:
            # A stream may cut the key into many pieces, and token ids spell it: only the parsed answer is kept.
            self._response_body += piece
            return
        self._write("data", i=self._pieces, ms=ms, **encode_body(piece))
        self._pieces += 1

    def end(self, how: str, error: str | None) -> None:
        """Note how the exchange ended."""
        if self.held:
            answer = answer_of(
                self.path,
                bytes(self._response_body),
                self._response_headers.get("content-type", ""),
                self._response_headers.get("content-encoding", ""),
            )
            self._write("answer", answer=json.loads(withhold(json.dumps(without_ids(answer).to_json()), self.keys)))
        self._write("end", ms=self._ms(), how=how, **({"error": error} if error else {}))

    def line(self, how: str, error: str | None) -> str:
        """For people."""
        parts = [f"{self.number} {self.path} {self.status or '-'}", f"{self._size:,} bytes"]
        if self._first_ms is not None:
            parts.append(f"first after {self._first_ms:,.0f} ms")
        if how != "complete":
            parts.append(how.replace("_", " ") + (f" ({error})" if error else ""))
        if self.held:
            parts.append("the API key stands in its text and was withheld")
        return ", ".join(parts)

    def _ms(self) -> float:
        return round((time.perf_counter() - self._begun) * 1000, 2)

    def _write(self, event: str, **values: Any) -> None:
        self.journal.write({"event": event, "n": self.number, **values})


def without_ids(answer: Answer) -> Answer:
    """The answer without token ids, which spell its text and the request's."""
    from dataclasses import replace

    choices = tuple(replace(choice, token_ids=None) for choice in answer.choices)
    return replace(answer, choices=choices, prompt_token_ids=None)


def ask_for_ids(body: bytes) -> bytes:
    """The request with `return_token_ids` set, unless it says something of it or is no JSON object."""
    if b'"return_token_ids"' in body:
        return body
    start = len(body) - len(body.lstrip())
    if body[start : start + 1] != b"{" or body[start + 1 :].lstrip()[:1] in (b"}", b""):
        return body
    return body[: start + 1] + _ASK + body[start + 1 :]


async def _read_body(receive: Receive) -> bytes | None:
    pieces = []
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _pass_on(response: httpx2.Response, send: Send, tape: _Tape | None) -> tuple[str, str | None]:
    headers = _end_to_end(response.headers.raw)
    if tape is not None:
        tape.response(response.status_code, headers)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    try:
        async for piece in response.aiter_raw():
            if tape is not None:
                tape.data(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except httpx2.HTTPError as failure:
        # Without its last message the response stays unfinished, and the client sees the cut that happened.
        return "upstream_closed", _text(failure)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return "complete", None


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return [(k.lower(), v) for k, v in headers if k.lower() not in _HOP_BY_HOP]


async def _bad_gateway(send: Send, origin: str, error: str) -> None:
    message = f"the recording proxy cannot reach {origin}: {error}"
    body = json.dumps({"error": {"message": message, "type": "upstream_unreachable", "code": 502}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 502, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
