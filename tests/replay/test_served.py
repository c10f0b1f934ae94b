import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed
from suite.observer import SilentObserver
from suite.replay.endpoint import Endpoint, EndpointOptions, base_url, shown_url
from suite.replay.sampler import sampler_of
from suite.replay.schema import ReplaysRecord, Side, parse_replays
from suite.replay.served import Asked, replay_served
from tests.replay.fake_server import Request, Response, error, fake_server, message, streamed, whole
from tests.replay.sample import hermes, session

GOOD = {"device": "core-1", "command": "show interface GigabitEthernet0/0/1.201"}
SECRET = "sk-very-secret-key"


def good(request: Request) -> Response:
    """The right call of either turn, as it was asked for."""
    device = "core-1" if len(request.body["messages"]) == 1 else "core-2"
    arguments = json.dumps(GOOD | {"device": device})
    if not request.body["stream"]:
        return whole(message(calls=[("device_show", arguments)]), "tool_calls")
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "device_show", "arguments": arguments}}
    return streamed([{"role": "assistant", "content": None}, {"tool_calls": [call]}], "tool_calls")


def ask(*urls: str, samples: int = 0, jobs: int = 1, **options: Any) -> ReplaysRecord:
    whole_session = session()
    given: dict[str, Any] = {"timeout_seconds": 5.0, "retries": 2, "backoff_seconds": 0.001} | options
    asked = Asked(
        session=whole_session,
        messages=(1, 3),
        samples=samples,
        sampler=sampler_of(whole_session, None, temperature=0.5) if samples else None,
        max_new_tokens=64,
        jobs=jobs,
    )
    cancelled = threading.Event()
    sides: tuple[Side, ...] = ("candidate", "reference")
    with ExitStack() as stack:
        servers = {}
        for side, url in zip(sides, urls, strict=False):
            servers[side] = Endpoint(EndpointOptions(url=url, **given), cancelled=cancelled)
            stack.callback(servers[side].close)
        return replay_served(asked, servers, observer=SilentObserver(), cancelled=cancelled)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("jobs", [1, 4])
def test_calls_survive_on_a_server_that_gives_them_back(stream: bool, jobs: int) -> None:
    with fake_server(good) as server:
        record = ask(server.url, samples=2, stream=stream, jobs=jobs)
    assert parse_replays(record.to_bytes()) == record
    greedy, sampled = record.headlines
    assert (greedy.candidate.survived, greedy.candidate.n, greedy.candidate.same_calls) == (2, 2, 2)
    assert (sampled.candidate.survived, sampled.candidate.n) == (4, 4)
    assert [(a.message, a.sample, a.seed) for a in record.runs[0].answers] == [
        (1, 0, None), (1, 1, 1), (1, 2, 2), (3, 0, None), (3, 1, 1), (3, 2, 2),
    ]  # fmt: skip
    bodies = [(r.body["temperature"], r.body.get("seed")) for r in server.requests]
    assert sorted(bodies, key=str) == [(0.0, None), (0.0, None), (0.5, 1), (0.5, 1), (0.5, 2), (0.5, 2)]
    assert record.runs[0].generated_tokens == 6 * (3 if stream else 7)


def test_two_servers_are_paired_by_turn() -> None:
    def worse(request: Request) -> Response:
        if len(request.body["messages"]) == 1:
            return whole(message(hermes("core-1", "show interface GigabitEthernet0/0/1.20l")))
        return good(request)

    with fake_server(worse) as candidate, fake_server(good) as reference:
        record = ask(candidate.url, reference.url)
    (line,) = record.headlines
    assert (line.both, line.only_reference, line.only_candidate, line.neither) == (1, 1, 0, 0)
    assert (line.paired_turns, line.p_value) == (2, None)
    first = record.runs[0].answers[0]
    assert (first.verdict, first.format) == ("literals changed", "hermes")
    assert first.calls[0].literals.missing == ("GigabitEthernet0/0/1.201",)


def fail_first(fault: Response, times: int = 1) -> Callable[[Request], Response]:
    return lambda request: fault if request.number < times else good(request)


FAULTS = {
    "500": error(500, "CUDA error"),
    "503": error(503, "loading", **{"retry-after": "0"}),
    "429": error(429, "slow down", **{"retry-after": "soon"}),
    "cut stream": streamed([{"content": "abc"}], None),
    "cut connection": streamed([{"content": "abc"}], "stop", cut_after=40),
    "not JSON": Response(b"<html>busy</html>"),
    "malformed event": Response(b"data: {nonsense\n\n", content_type="text/event-stream"),
    "nothing": Response(b"", cut_after=0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_passing_fault_is_tried_again(name: str) -> None:
    with fake_server(fail_first(FAULTS[name], times=2)) as server:
        record = ask(server.url)
    assert record.headlines[0].candidate.survived == 2
    assert len(server.requests) == 4


@pytest.mark.parametrize("name", FAULTS)
def test_a_lasting_fault_of_the_first_turn_ends_the_run(name: str) -> None:
    with fake_server(lambda _: FAULTS[name]) as server, pytest.raises(RunFailed, match="no answer after 3 attempts"):
        ask(server.url)
    assert len(server.requests) == 3


def test_a_slow_server_runs_into_the_deadline_of_the_whole_answer() -> None:
    slow = streamed([{"content": "x"}] * 200, pause_seconds=0.02)
    with fake_server(lambda _: slow) as server, pytest.raises(RunFailed, match=r"within 0\.3 s"):
        ask(server.url, timeout_seconds=0.3, retries=0)


def test_a_fault_of_a_later_turn_is_recorded_and_not_blamed_on_the_model() -> None:
    def failing(request: Request) -> Response:
        return good(request) if len(request.body["messages"]) == 1 else error(500, "boom")

    with fake_server(failing) as candidate, fake_server(good) as reference:
        record = ask(candidate.url, reference.url, retries=0)
    answer = record.runs[0].answers[1]
    assert (answer.ending, answer.verdict, answer.calls) == ("engine error", "engine error", ())
    assert "boom" in str(answer.error)
    (line,) = record.headlines
    assert (line.both, line.only_reference, line.paired_turns) == (1, 0, 1)


def test_refusals_are_not_tried_again_and_say_what_to_do() -> None:
    told = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    with fake_server(lambda _: error(400, told)) as server, pytest.raises(InvalidInput) as caught:
        ask(server.url)
    assert len(server.requests) == 1
    assert "--enable-auto-tool-choice" in str(caught.value.hint)


def test_the_key_is_sent_and_never_told() -> None:
    with fake_server(good) as server:
        record = ask(server.url, api_key=SECRET)
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET.encode() not in record.to_bytes()
    assert SECRET not in repr(EndpointOptions(url="http://x", api_key=SECRET))
    wrong = error(401, f"Incorrect API key provided: {SECRET}")
    with fake_server(lambda _: wrong) as server, pytest.raises(MissingPrerequisite) as caught:
        ask(server.url, api_key=SECRET)
    assert SECRET not in str(caught.value)
    assert "<key>" in str(caught.value)


def test_an_endless_answer_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.replay.endpoint.MAX_ANSWER_BYTES", 1000)
    endless = streamed([{"content": "x" * 100}] * 50)
    with fake_server(lambda _: endless) as server, pytest.raises(RunFailed, match="an answer of more than"):
        ask(server.url)


def test_no_server_there() -> None:
    with fake_server(good) as server:
        url = server.url
    with pytest.raises(MissingPrerequisite, match="cannot be reached"):
        ask(url, retries=0)


@pytest.mark.parametrize(
    ("models", "name", "message"),
    [
        (("a", "b"), None, "serves 2 models"),
        ((), None, "names no model"),
        (("a",), "b", "serves no model 'b'"),
    ],
)
def test_the_model_must_be_clear(models: tuple[str, ...], name: str | None, message: str) -> None:
    with fake_server(good, models) as server, pytest.raises(InvalidInput, match=message):
        ask(server.url, model=name)


def test_a_server_without_a_list_of_models_takes_the_name_given() -> None:
    with fake_server(good, error(404, "no such route")) as server:
        assert ask(server.url, model="mine").runs[0].name == "mine"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1/v1"),
        ("https://u:p@h/v1/?a=b#c", "https://u:p@h/v1"),
        ("http://h/api/v1/chat/completions", "http://h/api/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_urls_are_taken_with_or_without_their_path(url: str, base: str) -> None:
    assert base_url(url) == base
    assert "p@" not in shown_url(base)


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://h/", "http://", "http://h:x", "http://[", "file:///etc"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        base_url(url)


@pytest.fixture
def session_file(tmp_path: Path) -> Path:
    path = tmp_path / "session.json"
    path.write_bytes(session().to_json())
    return path


def test_the_command_prints_a_short_table(session_file: Path, tmp_path: Path) -> None:
    def second_says_nothing(request: Request) -> Response:
        return good(request) if len(request.body["messages"]) == 1 else whole(message("It is\nfine."))

    out = tmp_path / "record.json"
    with fake_server(second_says_nothing) as server:
        found = CliRunner().invoke(
            cli, ["replay", "-q", "--endpoint", server.url, "--session", str(session_file), "--out", str(out)]
        )
    assert found.exit_code == 0, found.output
    assert "2 of 2 tool-call turns" in found.output
    assert "1 of 2" in found.output
    assert "1 no call" in found.output
    assert "said: It is fine." in found.output
    assert parse_replays(out.read_bytes()).headlines[0].candidate.survived == 1


def test_the_command_prints_json_and_one_turn(session_file: Path) -> None:
    with fake_server(good) as server:
        common = ["replay", "-q", "--endpoint", server.url, "--session", str(session_file)]
        as_json = CliRunner().invoke(cli, [*common, "--json", "--samples", "1", "--temperature", "0.7"])
        shown = CliRunner().invoke(cli, [*common, "--show", "3"])
    assert parse_replays(as_json.output.encode()).samples == 1
    assert "greedy: ok" in shown.output
    assert "device_show core-2" in shown.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a manifest"),
        (["--session", "S"], "--session: needs --endpoint"),
        (["x.yaml", "--jobs", "2"], "--jobs: needs --endpoint"),
        (["--endpoint", "http://h", "--session", "S", "--follow", "2"], "--follow: is for manifests"),
        (["--endpoint", "http://h", "--session", "S", "--timeout", "nan"], "not a number of seconds"),
        (["--endpoint", "http://h", "--session", "S", "--samples", "1", "--temperature", "nan"], "temperature"),
        (["--endpoint", "http://h", "x.yaml"], "a server and manifests at once"),
        (["--endpoint", "http://h"], "a session is needed"),
        (["--endpoint", "http://h", "--session", "S", "--samples", "2"], "says how to sample"),
        (["--endpoint", "http://h", "--session", "S", "--api", "completions"], "need a tokenizer"),
        (["--endpoint", "http://h", "--session", "S", "--samples", "1", "--top-p", "0.9"], "--top-p needs"),
        (["--endpoint", "http://h", "--session", "S", "--temperature", "0.7"], "--temperature: is for sampled answers"),
        (["--endpoint", "http://h", "--session", "S", "--format", "hermes"], "--format: needs --api completions"),
        (["--endpoint", "http://h", "--session", "S", "--against-model", "m"], "--against-model: needs --against"),
        (["--endpoint", "http://h", "--session", "S", "--show", "0"], "no tool-call turn 0 is replayed"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], message: str, session_file: Path) -> None:
    given = [str(session_file) if item == "S" else item for item in arguments]
    found = CliRunner().invoke(cli, ["replay", "-q", *given])
    assert isinstance(found.exception, InvalidInput)
    assert message in str(found.exception)


@pytest.mark.parametrize("name", ["/home/someone/models/small.gguf", "C:\\models\\small.gguf", "~/small.gguf"])
def test_a_model_that_is_served_by_its_path_is_kept_by_its_name(name: str) -> None:
    with fake_server(good, (name,)) as server:
        record = ask(server.url)
    assert server.requests[0].body["model"] == name
    assert record.runs[0].name == "small.gguf"
    assert name.encode() not in record.to_bytes()
    with fake_server(good, ("owner/small",)) as server:
        assert ask(server.url).runs[0].name == "owner/small"
