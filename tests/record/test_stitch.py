from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.record.answers import Answer, Choice, answer_of
from suite.record.exchange import Exchange, read_exchange
from suite.record.journal import RawExchange
from suite.record.stitch import message_key, stitch
from tests.record.world import chat_chunk, finish_chunk

KEYS = st.sampled_from(
    ["choices", "delta", "message", "tool_calls", "function", "index", "content", "output", "item", "type"]
)
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "How many?"}


def said(text: str, *calls: str, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if calls:
        message["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": "run", "arguments": json.dumps({"x": name})}}
            for name in calls
        ]
    return message


def told(call: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


class Tape:
    """Builds exchanges in order."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def add(
        self, history: list[dict[str, Any]], *answers: dict[str, Any], how: str = "complete", **more: Any
    ) -> Exchange:
        choices = tuple(Choice(message=a, finish_reason="stop", token_ids=None) for a in answers)
        number = len(self.exchanges) + 1
        response_id = more.pop("response_id", None)
        exchange = Exchange(
            number=number,
            label=f"e{number}",
            started="",
            endpoint="chat/completions",
            history=tuple(history),
            answer=Answer(choices=choices, done=bool(choices), response_id=response_id),
            model=more.pop("model", "m"),
            status=200,
            how=how,
            **more,
        )
        self.exchanges.append(exchange)
        return exchange


def test_one_run_becomes_one_thread() -> None:
    tape = Tape()
    history = [SYSTEM, QUESTION]
    tape.add(history, said("", "a", "b"))
    history = [*history, said("", "a", "b"), told("b"), told("a")]
    tape.add(history, said("Two."))
    history = [*history, said("Two."), {"role": "user", "content": "Sure?"}]
    tape.add(history, said("Yes."))
    (thread,) = stitch(tape.exchanges)
    assert list(thread.messages) == [*history, said("Yes.")]
    assert [(a.message, a.exchange.number) for a in thread.answered] == [(2, 1), (5, 2), (7, 3)]
    assert thread.attempts == ()


def test_retries_are_one_turn() -> None:
    tape = Tape()
    tape.add([QUESTION], how="upstream_closed")
    tape.add([QUESTION], said("Three."))
    tape.add([QUESTION], said("Two."))
    tape.add([QUESTION, said("Three."), QUESTION], said("Three!"))
    (thread,) = stitch(tape.exchanges)
    assert [(a.message, a.exchange.number) for a in thread.answered] == [(1, 2), (3, 4)]
    assert sorted(e.number for e in thread.attempts) == [1, 3]


def test_a_retry_of_the_last_turn_counts_if_it_is_whole() -> None:
    tape = Tape()
    tape.add([QUESTION], said("Two."))
    tape.add([QUESTION], said("Thr"), how="client_closed")
    (thread,) = stitch(tape.exchanges)
    assert thread.messages[-1]["content"] == "Two."


def test_the_choice_that_the_client_went_on_with() -> None:
    tape = Tape()
    tape.add([QUESTION], said("One."), said("Two."))
    tape.add([QUESTION, said("Two."), QUESTION], said("Still two."))
    (thread,) = stitch(tape.exchanges)
    assert (thread.answered[0].choice, thread.answered[0].changed) == (1, False)


def test_what_clients_change_about_an_answer() -> None:
    tape = Tape()
    call = {"id": "a", "type": "function", "function": {"name": "run", "arguments": '{"x":   "a"}'}}
    tape.add([QUESTION], {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]})
    tape.add([QUESTION, said("", "a"), told("a")], said("Done."))
    tape.add([QUESTION, said("", "a"), told("a"), said("Something else."), QUESTION], said("Oh."))
    (thread,) = stitch(tape.exchanges)
    assert [a.changed for a in thread.answered] == [False, True, False]


def test_interleaved_runs_stay_apart() -> None:
    tape = Tape()
    runs = [[SYSTEM, {"role": "user", "content": f"task {k}"}] for k in range(3)]
    for turn in range(4):
        for k, history in enumerate(runs):
            reply = said(f"{k}.{turn}")
            tape.add(list(history), reply)
            history += [reply, {"role": "user", "content": f"go on {turn}"}]
    threads = stitch(tape.exchanges)
    assert [len(t.answered) for t in threads] == [4, 4, 4]
    assert [t.messages[1]["content"] for t in threads] == ["task 0", "task 1", "task 2"]
    assert all(t.shared_with is None for t in threads)


def test_a_fork_gives_two_threads() -> None:
    tape = Tape()
    tape.add([QUESTION], said("Two."))
    tape.add([QUESTION, said("Two."), {"role": "user", "content": "left"}], said("L"))
    tape.add([QUESTION, said("Two."), {"role": "user", "content": "right"}], said("R"))
    first, second = stitch(tape.exchanges)
    assert (first.shared_with, second.shared_with, second.num_shared) == (None, 0, 2)


def test_models_do_not_mix() -> None:
    tape = Tape()
    tape.add([QUESTION], said("Two."))
    tape.add([QUESTION, said("Two."), QUESTION], said("Two!"), model="other")
    assert [len(t.answered) for t in stitch(tape.exchanges)] == [1, 1]


def test_a_failed_last_turn_keeps_the_history() -> None:
    tape = Tape()
    tape.add([QUESTION], said("", "a"))
    tape.add([QUESTION, said("", "a"), told("a")], how="upstream_closed")
    (thread,) = stitch(tape.exchanges)
    assert [m["role"] for m in thread.messages] == ["user", "assistant", "tool"]
    assert len(thread.answered) == 1


def test_previous_response_id_stands_for_a_history() -> None:
    tape = Tape()
    tape.add([SYSTEM, QUESTION], said("Two."), response_id="r1")
    more = {"role": "user", "content": "Sure?"}
    tape.add([SYSTEM, more], said("Yes."), response_id="r2", previous_response_id="r1")
    tape.add([SYSTEM, more], said("Yes!"), response_id="r3", previous_response_id="r2")
    (thread,) = stitch(tape.exchanges)
    assert [m["content"] for m in thread.messages] == [
        "Be brief.",
        "How many?",
        "Two.",
        "Sure?",
        "Yes.",
        "Sure?",
        "Yes!",
    ]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.randoms())
def test_every_answered_exchange_is_in_a_thread(choices: list[int], random: Any) -> None:
    """Whatever order runs take turns in, no answer is lost and each thread's turns are in order."""
    tape = Tape()
    runs = [[{"role": "user", "content": f"run {k}"}] for k in range(4)]
    for k in choices:
        reply = said(f"{random.random()}")
        tape.add(list(runs[k]), reply)
        runs[k] += [reply, {"role": "user", "content": "on"}]
    threads = stitch(tape.exchanges)
    numbers = [a.exchange.number for t in threads for a in t.answered]
    assert sorted(numbers) == list(range(1, len(choices) + 1))
    for thread in threads:
        assert [a.message for a in thread.answered] == sorted(a.message for a in thread.answered)
        for a in thread.answered:
            assert thread.messages[a.message] == a.exchange.answer.choices[0].message


def test_keys_ignore_form_and_keep_content() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "How"}, {"type": "text", "text": "many?"}]}
    assert message_key(parts) == message_key({"role": "user", "content": "How\nmany?"})
    assert message_key({"role": "developer", "content": "x"}) == message_key({"role": "system", "content": "x"})
    assert message_key(QUESTION) != message_key({**QUESTION, "content": "How many? "})


class TestAnswers:
    def test_a_stream_with_everything(self) -> None:
        call = [{"index": 0, "id": "c1", "function": {"name": "run", "arguments": '{"a"'}}]
        more = [{"index": 0, "function": {"arguments": ": 1}"}}, {"index": 1, "id": "c2", "function": {"name": "see"}}]
        ids = {"id": "x", "prompt_token_ids": [1, 2], "choices": [{"index": 0, "delta": {}, "token_ids": [3]}]}
        usage = {"choices": [], "usage": {"completion_tokens": 9}}
        body = b"".join(
            [
                f"data: {json.dumps(ids)}\n\n".encode(),
                chat_chunk(0, role="assistant", reasoning="thi"),
                chat_chunk(1, reasoning="nk"),
                chat_chunk(2, content="Let me "),
                b": keep alive\n\n",
                chat_chunk(3, content="see."),
                chat_chunk(4, tool_calls=call),
                chat_chunk(5, tool_calls=more),
                finish_chunk("tool_calls").replace(
                    b"data: [DONE]", f"data: {json.dumps(usage)}\n\ndata: [DONE]".encode()
                ),
            ]
        )
        answer = answer_of("/v1/chat/completions", body, "text/event-stream; charset=utf-8")
        assert answer.problems == ()
        assert answer.done
        assert (answer.prompt_token_ids, answer.choices[0].token_ids) == ((1, 2), (3,))
        assert answer.usage == {"completion_tokens": 9}
        message = answer.choices[0].message
        assert (message["content"], message["reasoning_content"]) == ("Let me see.", "think")
        assert [c["function"] for c in message["tool_calls"]] == [
            {"name": "run", "arguments": '{"a": 1}'},
            {"name": "see", "arguments": ""},
        ]
        assert Answer.from_json(answer.to_json()) == answer

    def test_a_cut_stream_is_not_done(self) -> None:
        answer = answer_of("/v1/chat/completions", chat_chunk(0, content="Half"), "text/event-stream")
        assert not answer.done
        assert answer.choices[0].message["content"] == "Half"
        assert answer.problems == ("the stream ends before its [DONE]",)

    def test_responses(self) -> None:
        output = [
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]},
            {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"},
        ]
        whole = {"id": "r", "status": "completed", "output": output}
        plain = answer_of("/v1/responses", json.dumps(whole).encode(), "application/json")
        items = [{"type": "response.output_item.done", "item": item} for item in output]
        last = {"type": "response.completed", "response": whole}
        stream = b"".join(f"event: {v['type']}\ndata: {json.dumps(v)}\n\n".encode() for v in [*items, last])
        streamed = answer_of("/v1/responses", stream, "text/event-stream")
        assert plain == streamed
        assert plain.choices[0].message["reasoning_content"] == "hm"
        assert plain.choices[0].message["tool_calls"][0]["id"] == "c"
        cut = answer_of("/v1/responses", b"".join(stream.split(b"event: response.completed")[:1]), "text/event-stream")
        assert (cut.done, cut.choices[0].message["content"]) == (False, "Hello")

    @pytest.mark.parametrize("encoding", ["gzip", "deflate"])
    def test_compressed(self, encoding: str) -> None:
        import gzip
        import zlib

        body = json.dumps({"choices": [{"text": "hi", "finish_reason": "stop"}]}).encode()
        packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
        answer = answer_of("/v1/completions", packed, "application/json", encoding)
        assert answer.choices[0].message["content"] == "hi"
        assert answer_of("/v1/completions", packed, "application/json", "br").problems

    @given(st.binary(max_size=300), st.sampled_from(["/v1/chat/completions", "/v1/completions", "/v1/responses"]))
    def test_any_bytes_are_read_or_named(self, body: bytes, path: str) -> None:
        for kind in ("application/json", "text/event-stream", ""):
            answer = answer_of(path, body, kind)
            assert answer.choices or answer.problems

    @given(JSON)
    def test_any_json_is_read_or_named(self, value: Any) -> None:
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
            answer_of(path, json.dumps(value).encode(), "application/json")
            answer_of(path, f"data: {json.dumps(value)}\n\n".encode(), "text/event-stream")


@pytest.mark.parametrize(
    ("cut", "how", "problem"),
    [(0, "complete", None), (1, "client_closed", "client closed")],
    ids=["after its end mark", "before it"],
)
def test_a_client_may_leave_at_the_streams_own_end_mark(cut: int, how: str, problem: str | None) -> None:
    pieces = [chat_chunk(0, content="Three."), finish_chunk()]
    raw = RawExchange(
        journal="j",
        number=1,
        started="",
        path="/v1/chat/completions",
        request_headers={},
        request_body=json.dumps({"messages": [QUESTION]}).encode(),
        status=200,
        response_headers={"content-type": "text/event-stream"},
        response_body=b"".join(pieces[: len(pieces) - cut]),
        how="client_closed",
    )
    read = read_exchange(raw, 1)
    assert read is not None
    assert read.how == how
    assert (problem in read.problems) if problem else read.problems == ()
