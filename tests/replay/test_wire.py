import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.replay.wire import (
    Malformed,
    Refused,
    Reply,
    chat_request,
    error_text,
    model_names,
    read_stream,
    read_whole,
)
from tests.replay.fake_server import message, streamed, whole
from tests.replay.sample import hermes, session

ARGUMENTS = '{"device": "core-1", "command": "show"}'


def pieces(text: str, size: int = 3) -> list[dict[str, Any]]:
    """A call's arguments as a server streams them."""
    head = {"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": {"name": "device_show"}}]}
    return [
        head,
        *(
            {"tool_calls": [{"index": 0, "function": {"arguments": text[i : i + size]}}]}
            for i in range(0, len(text), size)
        ),
    ]


def test_a_streamed_answer_is_the_same_as_a_whole_one() -> None:
    read = read_stream(streamed(pieces(ARGUMENTS), "tool_calls").body.splitlines(keepends=True))
    expected = read_whole(whole(message(calls=[("device_show", ARGUMENTS)]), "tool_calls").body)
    assert read.graded_text() == expected.graded_text()
    assert (read.completion_tokens, expected.completion_tokens, expected.cached_tokens) == (3, 7, 5)
    assert read.graded_text()[1] == "openai_json"


def test_calls_side_by_side_are_kept_apart_and_in_order() -> None:
    deltas = [
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "two", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
    ]
    text, _ = read_stream(streamed(deltas, "tool_calls").body.splitlines(keepends=True)).graded_text()
    calls = json.loads(text)["tool_calls"]
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls] == [
        ("a", "one", "{}"),
        ("b", "two", "{}"),
    ]


def test_a_call_that_the_servers_parser_left_in_the_text_is_graded_as_text() -> None:
    reply = read_whole(whole(message(hermes("core-1"))).body)
    assert reply.graded_text() == (hermes("core-1"), "hermes")
    assert read_whole(whole(message("All is well.")).body).graded_text()[1] == "openai_json"
    assert read_whole(whole(message("<tool_call> well")).body).graded_text()[1] == "qwen_xml"


@pytest.mark.parametrize(
    ("finish", "ending"), [("length", "truncated"), ("tool_calls", "stop"), ("abort", "engine error"), ("eos", "stop")]
)
def test_why_an_answer_ended(finish: str, ending: str) -> None:
    assert read_whole(whole(message("x"), finish).body).ending == ending


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [3]}',
        b'{"choices": [{"message": 3}]}',
        b'{"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "x"}, "finish_reason": null}]}',
        b'{"choices": [{"message": {"content": "x"}, "finish_reason": 3}]}',
        b'{"choices": [{"message": {"tool_calls": {}}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"tool_calls": [7]}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"tool_calls": [{"index": 99999999}]}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"tool_calls": [{"index": -1}]}, "finish_reason": "stop"}]}',
    ],
)
def test_what_is_no_answer_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_whole(body)


def test_a_cut_stream_is_malformed_and_an_error_in_it_is_told() -> None:
    body = streamed(pieces(ARGUMENTS), None).body
    with pytest.raises(Malformed, match="cut before"):
        read_stream([body])
    failing = body + b'data: {"error": {"message": "out of\\nmemory"}}\n\n'
    with pytest.raises(Refused, match="out of memory"):
        read_stream([failing])


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_a_fault(data: bytes) -> None:
    for read in (read_whole, lambda raw: read_stream([raw])):
        with contextlib.suppress(Malformed, Refused):
            assert isinstance(read(data), Reply)
    assert len(error_text(data)) <= 400


def test_a_request_holds_the_history_before_the_turn_and_nothing_after() -> None:
    body = chat_request(session(), 3, model="m", max_tokens=9, sampling={"temperature": 0.0}, stream=True)
    assert [item["role"] for item in body["messages"]] == ["user", "assistant", "tool"]
    assert body["tools"][0]["function"]["name"] == "device_show"
    assert (body["max_tokens"], body["temperature"], body["stream"]) == (9, 0.0, True)
    assert "chat_template_kwargs" not in body


def test_names_that_no_record_could_hold_are_passed_over() -> None:
    ids = ["good", "", "x" * 301, 3, "\ud800"]
    data = json.dumps({"data": [{"id": name, "owned_by": "\udfff"} for name in ids]}).encode()
    assert model_names(data) == (["good"], None)
    with pytest.raises(Malformed, match="no list of models"):
        model_names(b'{"data": {}}')


def test_a_novel_is_refused() -> None:
    with pytest.raises(Refused, match="more than 500,000 characters"):
        read_whole(whole(message("x" * 500_001)).body)
