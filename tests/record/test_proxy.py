from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.record.journal import RawExchange, read_journals
from suite.record.keys import WITHHELD
from suite.record.proxy import ask_for_ids
from suite.record.server import is_loopback, listen
from suite.record.sessions import write_sessions
from suite.record.upstream import Upstream, is_recorded
from tests.record.world import Fake, answer, chat_chunk, fake_server, finish_chunk, proxy

KEY = "sk-not-a-real-key-0123456789"
PATH = "/v1/chat/completions"
PARTS = [chat_chunk(i, content=f"w{i} é ") for i in range(20)] + [finish_chunk()]


@pytest.fixture
def fake():
    with fake_server() as server:
        yield server


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


def url(fake: Fake) -> str:
    return f"http://127.0.0.1:{fake.port}"


def ask(pieces: list[bytes], content: str = "hi", **do: object) -> dict[str, object]:
    texts = [piece.decode("latin-1") for piece in pieces]
    return {"messages": [{"role": "user", "content": content}], "stream": True, "do": {"pieces": texts, **do}}


def exchanges(folder: Path) -> tuple[RawExchange, ...]:
    return read_journals(folder).exchanges


class TestBytes:
    def test_request_and_response_pass_unchanged(self, fake: Fake, tmp_path: Path) -> None:
        body = b'{ "messages" : [ {"role":"user","content":"caf\\u00e9 \xc3\xa9"} ] ,"seed":1e0}\n'
        with proxy(url(fake), tmp_path) as running:
            reply = httpx2.post(
                f"{running.url}{PATH}?a=b%20c&x=%2F",
                content=body,
                headers={"Authorization": f"Bearer {KEY}", "X-Own": "kept", "Connection": "keep-alive"},
            )
        head, _, sent = fake.requests[0].partition(b"\r\n\r\n")
        assert sent == body
        assert head.startswith(b"POST /v1/chat/completions?a=b%20c&x=%2F HTTP/1.1")
        lines = head.lower().split(b"\r\n")
        assert f"authorization: bearer {KEY}".encode() in lines
        assert b"x-own: kept" in lines
        assert f"host: 127.0.0.1:{fake.port}".encode() in lines
        assert len([line for line in lines if line.startswith(b"user-agent")]) == 1
        assert reply.content == json.dumps(answer()).encode()
        assert (reply.headers["x-request-id"], reply.headers["set-cookie"]) == ("r1", "a=b")
        (kept,) = exchanges(tmp_path)
        assert (kept.request_body, kept.response_body, kept.how) == (body, reply.content, "complete")
        assert kept.path == PATH

    @pytest.mark.parametrize("size", [1, 7, 64, 10_000])
    def test_streams_split_anywhere(self, fake: Fake, tmp_path: Path, size: int) -> None:
        whole = b"".join(PARTS)
        pieces = [whole[i : i + size] for i in range(0, len(whole), size)]
        with proxy(url(fake), tmp_path) as running:
            reply = httpx2.post(running.url + PATH, json=ask(pieces))
        assert reply.content == whole
        (kept,) = exchanges(tmp_path)
        assert kept.response_body == whole

    def test_the_first_piece_does_not_wait_for_the_last(self, fake: Fake, tmp_path: Path) -> None:
        with (
            proxy(url(fake), tmp_path) as running,
            httpx2.Client() as client,
            client.stream("POST", running.url + PATH, json=ask(PARTS, pause=0.1)) as reply,
        ):
            pieces = reply.iter_raw()
            first = next(pieces)
            # The journal already holds what the client has seen, although the answer is not at its end.
            assert exchanges(tmp_path)[0].response_body[: len(first)] == first
            assert exchanges(tmp_path)[0].how is None
            rest = b"".join(pieces)
        assert first + rest == b"".join(PARTS)

    def test_other_paths_pass_and_are_not_kept(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path) as running:
            assert httpx2.get(running.url + "/v1/models").status_code == 200
            assert httpx2.post(running.url + "/tokenize", json={"do": {"status": 418}}).status_code == 418
        assert exchanges(tmp_path) == ()
        assert running.counts is not None
        assert (running.counts.passed, running.counts.recorded) == (2, 0)

    def test_errors_of_the_server_pass(self, fake: Fake, tmp_path: Path) -> None:
        body = {"do": {"status": 429, "answer": {"error": {"message": "slow down"}}}}
        with proxy(url(fake), tmp_path) as running:
            reply = httpx2.post(running.url + PATH, json=body)
        assert (reply.status_code, reply.json()) == (429, body["do"]["answer"])
        assert exchanges(tmp_path)[0].status == 429

    def test_a_body_in_chunks(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path) as running:
            httpx2.post(running.url + PATH, content=iter([b'{"messa', b'ges": []}']))
        assert fake.requests[0].partition(b"\r\n\r\n")[2] == b'{"messages": []}'

    def test_asking_for_ids_adds_one_field(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path, ask_token_ids=True) as running:
            httpx2.post(running.url + PATH, content=b' {"messages": []}')
        assert fake.requests[0].partition(b"\r\n\r\n")[2] == b' {"return_token_ids":true,"messages": []}'

    @pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"x", b'{"return_token_ids":false,"a":1}', b" { } "])
    def test_bodies_that_are_not_asked(self, body: bytes) -> None:
        assert ask_for_ids(body) == body


class TestFaults:
    def test_a_cut_stream_is_cut_for_the_client_too(self, fake: Fake, tmp_path: Path) -> None:
        got = b""
        with proxy(url(fake), tmp_path) as running, httpx2.Client() as client:
            with client.stream("POST", running.url + PATH, json=ask(PARTS, cut_at=5, pause=0.02)) as reply:
                pieces = reply.iter_raw()
                for _ in range(5):
                    got += next(pieces)
                with pytest.raises(httpx2.RemoteProtocolError):
                    next(pieces)
            assert httpx2.post(running.url + PATH, json={}).status_code == 200  # the proxy goes on
        assert got == b"".join(PARTS[:5])
        kept, _ = exchanges(tmp_path)
        assert (kept.response_body, kept.how) == (got, "upstream_closed")

    def test_a_client_that_leaves_ends_the_upstream_request(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path) as running:
            body = ask(PARTS * 50, pause=0.02)
            with httpx2.Client() as client, client.stream("POST", running.url + PATH, json=body) as reply:
                got = next(reply.iter_raw())
            wait_for(lambda: fake.dropped == 1, "the upstream connection to close")
            wait_for(lambda: exchanges(tmp_path)[0].how is not None, "the end of the exchange")
        (kept,) = exchanges(tmp_path)
        assert kept.how == "client_closed"
        assert kept.response_body.startswith(got)

    def test_a_client_that_leaves_before_its_request_is_whole(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path) as running:
            host, port = running.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
            time.sleep(0.2)
        assert fake.requests == []
        assert exchanges(tmp_path) == ()

    def test_a_slow_client_gets_everything(self, fake: Fake, tmp_path: Path) -> None:
        big = [chat_chunk(i, content="x" * 20_000) for i in range(300)]
        whole = b"".join(big)
        with proxy(url(fake), tmp_path) as running:
            host, port = running.url.removeprefix("http://").split(":")
            body = json.dumps(ask(big)).encode()
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect((host, int(port)))
                head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
                client.sendall(head.encode() + body)
                data = b""
                while piece := client.recv(65_536):
                    data += piece
                    if len(data) < 1_000_000:
                        time.sleep(0.003)
        assert _dechunk(data.partition(b"\r\n\r\n")[2]) == whole
        assert exchanges(tmp_path)[0].response_body == whole

    @pytest.mark.parametrize(
        "stream",
        [
            [b"data: {not json}\n\n", b"\xff\xfe\x00data\r\r\n"],
            [b"data: [DONE]\n"],
            [b"event: ping", b": comment\n\ndata: 3\n\ndata: null\n\n"],
            [b'data: {"choices": 7}\n\ndata: {"choices": [{"delta": {"tool_calls": [3]}}]}\n\n'],
        ],
    )
    def test_malformed_events_pass_and_are_kept(self, fake: Fake, tmp_path: Path, stream: list[bytes]) -> None:
        with proxy(url(fake), tmp_path) as running:
            reply = httpx2.post(running.url + PATH, json=ask(stream))
        assert reply.content == b"".join(stream)
        assert exchanges(tmp_path)[0].response_body == b"".join(stream)
        assert write_sessions(tmp_path, name="s").problems

    def test_an_upstream_that_is_not_there(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with proxy(f"http://127.0.0.1:{port}", tmp_path) as running:
            reply = httpx2.post(running.url + PATH, json=ask(PARTS))
        assert reply.status_code == 502
        assert reply.json()["error"]["type"] == "upstream_unreachable"
        assert exchanges(tmp_path)[0].how == "upstream_unreachable"

    def test_a_full_disk_stops_the_recording_and_not_the_traffic(
        self, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write

        def full(descriptor: int, data: bytes) -> int:
            if bytes(data).startswith(b'{"event":"data"'):
                raise OSError(28, "No space left on device")
            return real(descriptor, data)

        class Ears:
            warnings: list[str]

            def phase(self, name: str, *, total: int | None = None, unit: str = "") -> None: ...
            def advance(self, count: int) -> None: ...
            def note(self, text: str) -> None: ...
            def warn(self, text: str) -> None:
                self.warnings.append(text)

        ears = Ears()
        ears.warnings = []
        monkeypatch.setattr("suite.record.journal.os.write", full)
        with proxy(url(fake), tmp_path, observer=ears) as running:
            for _ in range(2):
                assert httpx2.post(running.url + PATH, json=ask(PARTS)).content == b"".join(PARTS)
        assert ears.warnings == ["recording has stopped (No space left on device); traffic still passes"]

    def test_fifty_at_once(self, fake: Fake, tmp_path: Path) -> None:
        async def one(client: httpx2.AsyncClient, number: int) -> bytes:
            parts = [chat_chunk(i, content=f"{number}.{i} ") for i in range(30)]
            reply = await client.post(running.url + PATH, json=ask(parts, content=str(number), pause=0.005))
            assert reply.content == b"".join(parts)
            return reply.content

        async def all_of_them() -> list[bytes]:
            limits = httpx2.Limits(max_connections=None)
            async with httpx2.AsyncClient(timeout=60, limits=limits) as client:
                return await asyncio.gather(*(one(client, number) for number in range(50)))

        with proxy(url(fake), tmp_path) as running:
            replies = asyncio.run(all_of_them())
        kept = exchanges(tmp_path)
        assert len(kept) == 50
        assert all(not exchange.problems and exchange.how == "complete" for exchange in kept)
        for exchange in kept:
            number = int(json.loads(exchange.request_body)["messages"][0]["content"])
            assert exchange.response_body == replies[number]

    @pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
    def test_many_requests_over_fifty_connections(self, fake: Fake, tmp_path: Path, count: int) -> None:
        async def worker(port: int, numbers: list[int]) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in numbers:
                messages = [{"role": "user", "content": str(number)}]
                body = json.dumps({"messages": messages, "do": {"answer": answer(f"a{number}")}}).encode()
                writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(body)))
                writer.write(body)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                assert json.loads(await reader.readexactly(length)) == answer(f"a{number}")
            writer.close()

        async def all_of_them(port: int) -> None:
            await asyncio.gather(*(worker(port, list(range(k, count, 50))) for k in range(50)))

        with proxy(url(fake), tmp_path) as running:
            asyncio.run(all_of_them(int(running.url.rsplit(":", 1)[1])))
        kept = exchanges(tmp_path)
        assert [exchange.number for exchange in kept] == list(range(1, count + 1))
        seen = set()
        for exchange in kept:
            number = json.loads(exchange.request_body)["messages"][0]["content"]
            assert json.loads(exchange.response_body) == answer(f"a{number}")
            assert exchange.how == "complete"
            seen.add(number)
        assert len(seen) == count

    def test_kill_9_keeps_what_the_client_has_seen(self, fake: Fake, tmp_path: Path) -> None:
        out = tmp_path / "out"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        code = "import sys; from suite.cli.main import main; main()"
        command = [
            sys.executable,
            "-c",
            code,
            "record",
            "--upstream",
            url(fake),
            "--out",
            str(out),
            "--port",
            str(port),
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            while "point the agent at" not in process.stderr.readline():
                assert process.poll() is None
            base = f"http://127.0.0.1:{port}"
            wait_for(lambda: _answers(base), "the proxy")
            done = httpx2.post(base + PATH, json=ask(PARTS, "first"))
            body = ask(PARTS * 20, "second", pause=0.02)
            with httpx2.Client() as client, client.stream("POST", base + PATH, json=body) as reply:
                pieces = reply.iter_raw()
                seen = [next(pieces) for _ in range(3)]
                process.send_signal(signal.SIGKILL)
                process.wait()
                with pytest.raises(httpx2.HTTPError):
                    seen.extend(pieces)
        finally:
            process.kill()
            process.communicate()
        first, second = exchanges(out)
        assert first.response_body == done.content
        assert second.how is None
        assert second.response_body.startswith(b"".join(seen))
        result = write_sessions(out, name="s")
        assert [w.built.session.messages[0].content for w in result.written] == ["first"]
        assert any("the proxy ended before" in problem for problem in result.problems)


def _answers(base: str) -> bool:
    try:
        return httpx2.get(base + "/health").status_code == 200
    except httpx2.HTTPError:
        return False


def _dechunk(data: bytes) -> bytes:
    whole = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        whole += data[:length]
        data = data[length + 2 :]
    return whole


class TestKeys:
    def texts(self, folder: Path) -> str:
        return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())

    @pytest.mark.parametrize(
        "headers",
        [
            {"Authorization": f"Bearer {KEY}"},
            {"api-key": KEY},
            {"X-Api-Key": KEY},
            {"Cookie": f"session={KEY}; theme=dark"},
            {"X-Custom-Credential": KEY},
        ],
    )
    def test_no_header_with_a_key_is_kept(self, fake: Fake, tmp_path: Path, headers: dict[str, str]) -> None:
        with proxy(url(fake), tmp_path) as running:
            httpx2.post(running.url + PATH, json=ask(PARTS), headers=headers)
        write_sessions(tmp_path, name="s")
        assert KEY.encode() in fake.requests[0]
        assert KEY not in self.texts(tmp_path)

    def test_no_key_of_the_query_is_kept(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path) as running:
            httpx2.post(f"{running.url}{PATH}?api_key={KEY}", json=ask(PARTS))
        assert KEY not in self.texts(tmp_path)

    def test_a_key_in_the_text_itself(self, fake: Fake, tmp_path: Path) -> None:
        """An agent that reads its own environment file sends its key back as history, and the model may repeat it."""
        split = [chat_chunk(0, content="it is "), *(chat_chunk(1, content=c) for c in KEY), finish_chunk()]
        with proxy(url(fake), tmp_path) as running:
            reply = httpx2.post(
                running.url + PATH,
                json=ask(split, f"OPENAI_API_KEY={KEY}"),
                headers={"Authorization": f"Bearer {KEY}"},
            )
        assert reply.content == b"".join(split)
        result = write_sessions(tmp_path, name="s")
        assert KEY not in self.texts(tmp_path)
        user, assistant = result.written[0].built.session.messages
        assert user.content == f"OPENAI_API_KEY={WITHHELD}"
        assert assistant.content == f"it is {WITHHELD}"
        assert running.counts is not None
        assert running.counts.withheld == 1

    def test_a_key_in_the_text_of_a_compressed_answer(self, fake: Fake, tmp_path: Path) -> None:
        body = {
            "model": "fake",
            "messages": [{"role": "user", "content": f"say {KEY}"}],
            "do": {"answer": answer(f"it is {KEY}"), "compressed": True},
        }
        with proxy(url(fake), tmp_path) as running:
            httpx2.post(running.url + PATH, json=body, headers={"Authorization": f"Bearer {KEY}"})
        result = write_sessions(tmp_path, name="s")
        assert KEY not in self.texts(tmp_path)
        assert result.written[0].built.session.messages[1].content == f"it is {WITHHELD}"

    def test_a_placeholder_is_no_key(self, fake: Fake, tmp_path: Path) -> None:
        with proxy(url(fake), tmp_path) as running:
            httpx2.post(
                running.url + PATH, json=ask(PARTS, "the EMPTY queue"), headers={"Authorization": "Bearer EMPTY"}
            )
        assert write_sessions(tmp_path, name="s").written[0].built.session.messages[0].content == "the EMPTY queue"

    def test_files_are_private(self, fake: Fake, tmp_path: Path) -> None:
        out = tmp_path / "out"
        with proxy(url(fake), out) as running:
            httpx2.post(running.url + PATH, json=ask(PARTS))
        write_sessions(out, name="s")
        assert out.stat().st_mode & 0o077 == 0
        for path in out.rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


class TestUpstream:
    @pytest.mark.parametrize(
        ("given", "path", "expected"),
        [
            ("http://h:1", b"/v1/chat/completions", b"/v1/chat/completions"),
            ("http://h:1/v1/", b"/v1/models", b"/v1/models"),
            ("https://h/openai/v3", b"/v1/models", b"/openai/v3/models"),
            ("https://h/openai/v3", b"/health", b"/health"),
            ("http://h", b"/v1x", b"/v1x"),
        ],
    )
    def test_paths(self, given: str, path: bytes, expected: bytes) -> None:
        assert Upstream.parse(given).path(path) == expected

    @pytest.mark.parametrize("given", ["", "h:1", "ftp://h", "http://", "http://u:p@h", "http://h?x=1", "http://h:x"])
    def test_what_is_no_upstream(self, given: str) -> None:
        with pytest.raises(InvalidInput):
            Upstream.parse(given)

    def test_origin(self) -> None:
        assert Upstream.parse("https://[::1]:443/v1").origin == "https://[::1]"
        assert Upstream.parse("http://h").origin == "http://h"

    def test_what_is_recorded(self) -> None:
        assert is_recorded("POST", "/v1/responses/")
        assert not is_recorded("GET", "/v1/chat/completions")
        assert not is_recorded("POST", "/v1/embeddings")


def test_a_port_in_use_is_an_error_for_the_user() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(MissingPrerequisite, match="cannot listen"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
