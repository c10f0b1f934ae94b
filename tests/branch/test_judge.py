"""Reading futures of a Qwen session: texts, states, closing marks across the fork, verdicts, literals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from suite.branch.grader import STOP_TEXTS, Grader
from suite.branch.judge import Judge, RawFuture, session_format
from suite.grade.formats import GRAMMARS
from suite.workload.rendered import Rendered, Span, Turn, tokens_sha256
from suite.workload.session import Session, parse_session

USER = ["<|im_start|>user\n", "Check 10.0.0.5 and eth0.", "<|im_end|>\n"]
HEAD = ["<|im_start|>assistant\n"]
OUTPUT = [
    "I look.\n",
    "<tool_call>\n",
    "<function=ping>\n",
    "<parameter=host>\n",
    "10.0.0.5",
    "\n</parameter>\n",
    "</function>\n</tool",
    "_call>",
    "<|im_end|>",
]
MORE = ["10.0.0.50", "eth1", "pong", " on", "so", "</tool_call>", "on", "\u00e9", "<function=ping>\n<parameter"]
VOCABULARY = [*USER, *HEAD, *OUTPUT, *MORE]
ID = {text: number for number, text in enumerate(VOCABULARY)}
TOKENS = list(range(len(USER) + len(HEAD) + len(OUTPUT)))
START = len(USER) + len(HEAD)


def decode(ids: Any) -> str:
    return "".join(VOCABULARY[i] for i in ids)


def session(**mark: Any) -> Session:
    arguments = {"host": "10.0.0.5"}
    value = {
        "schema_version": 1,
        "name": "ping",
        "licence": "Apache-2.0",
        "provenance": {"kind": "synthetic", "generator": "test"},
        "messages": [
            {"role": "user", "content": "Check 10.0.0.5 and eth0."},
            {
                "role": "assistant",
                "content": "I look.\n",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "ping", "arguments": json.dumps(arguments)}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "pong"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "ping",
                    "parameters": {"type": "object", "properties": {"host": {"type": "string"}}, "required": ["host"]},
                },
            }
        ],
        "marks": [{"message": 1, **mark}] if mark else [],
    }
    return parse_session(json.dumps(value).encode())


def rendered() -> Rendered:
    end = len(TOKENS)
    return Rendered(
        token_ids=tuple(TOKENS),
        spans=(
            Span(start=0, end=3, kind="user", turn=0),
            Span(start=3, end=START, kind="scaffold", turn=1),
            Span(start=START, end=end, kind="assistant_output", turn=1),
            Span(start=START + 1, end=end - 1, kind="tool_call", turn=1, label="ping"),
        ),
        turns=(
            Turn(index=0, role="user", start=0, end=3, output_start=None),
            Turn(index=1, role="assistant", start=3, end=end, output_start=START),
        ),
        workload_digest="3" * 64,
        tokens_sha256=tokens_sha256(TOKENS),
        tokenizer_sha256="4" * 64,
        chat_template_sha256="5" * 64,
    )


def judge(**mark: Any) -> Judge:
    found = session_format(rendered(), decode)
    assert found == "qwen_xml"
    return Judge(rendered=rendered(), decode=decode, grader=Grader(session=session(**mark), format=found))


def read(after: int, texts: list[str], finish: str = "envelope", **mark: Any) -> Any:
    """A future behind the first `after` tokens of the output."""
    work = judge(**mark)
    ids = tuple(ID[text] for text in texts)
    raw = RawFuture(
        role="candidate",
        engine_token_id=ids[0],
        token_ids=ids,
        finish=finish,  # type: ignore[arg-type]
        batch=0,
        order=0,
        cached_tokens=0,
    )
    return work.read(raw, work.place(START + after - 1))


def test_the_recorded_future_is_ok_and_has_its_states() -> None:
    found = read(4, OUTPUT[4:])
    assert (found.verdict, found.finish, found.states) == ("ok", "envelope", "vveo"[: len(found.states)])
    assert found.text == "".join(OUTPUT[4:8])
    assert found.calls[0].arguments == {"host": "10.0.0.5"}


def test_what_stands_before_and_behind_the_fork_is_told() -> None:
    place = judge().place(START + 3)
    assert (place.turn, place.turn_text) == (1, "".join(OUTPUT[:4]))
    assert place.recorded_text == "".join(OUTPUT[4:])


def test_a_changed_literal_is_found_where_it_must_survive() -> None:
    found = read(4, ["10.0.0.50", *OUTPUT[5:8]], must_survive=["10.0.0.5"])
    assert found.verdict == "literals changed"
    assert found.calls[0].literals.mutated == (("10.0.0.5", "10.0.0.50"),)


def test_a_literal_that_stands_in_no_recorded_call_need_not_survive_in_one() -> None:
    assert read(4, OUTPUT[4:8]).verdict == "ok"


def test_another_call_than_the_marked_one_is_a_wrong_command() -> None:
    right = [{"name": "ping", "arguments": {"host": "10.0.0.5"}}]
    assert read(4, OUTPUT[4:8], right_commands=right).verdict == "ok"
    other = [{"name": "ping", "arguments": {"host": "10.0.0.6"}}]
    assert read(4, OUTPUT[4:8], right_commands=other).verdict == "wrong command"


def test_a_closing_mark_that_began_before_the_fork_ends_the_future() -> None:
    found = read(7, ["_call>", "so", "<|im_end|>"], finish="turn_end")
    assert (found.text, found.finish, found.verdict) == ("_call>", "envelope", "ok")


def test_a_call_that_was_finished_before_the_fork_is_not_graded_again() -> None:
    found = read(8, ["so", "<|im_end|>"], finish="turn_end")
    assert (found.verdict, found.calls) == ("no call", ())


@pytest.mark.parametrize(
    ("finish", "verdict"), [("turn_end", "not closed"), ("length", "truncated"), ("context", "truncated")]
)
def test_an_open_envelope_is_broken_only_where_the_turn_has_ended(finish: str, verdict: str) -> None:
    texts = [*OUTPUT[4:6], *(["<|im_end|>"] if finish == "turn_end" else [])]
    assert read(4, texts, finish=finish).verdict == verdict


def test_a_first_token_that_is_not_continued_is_read_as_cut_off() -> None:
    found = judge().read(
        RawFuture(
            role="candidate",
            engine_token_id=ID["so"],
            token_ids=(ID["_call>"],),
            finish="not_continued",
            batch=0,
            order=0,
            cached_tokens=0,
        ),
        judge().place(START + 6),
    )
    assert (found.finish, found.agrees) == ("not_continued", False)


def test_a_session_without_calls_has_no_format_and_no_states() -> None:
    plain = Judge(rendered=rendered(), decode=decode, grader=Grader(session=session(), format=None))
    assert plain.stop_texts == ()
    raw = RawFuture(
        role="candidate",
        engine_token_id=ID["so"],
        token_ids=(ID["so"],),
        finish="length",
        batch=0,
        order=0,
        cached_tokens=0,
    )
    found = plain.read(raw, plain.place(START))
    assert (found.states, found.calls) == ("", ())


def test_every_closing_mark_belongs_to_a_known_format() -> None:
    assert STOP_TEXTS.keys() <= GRAMMARS.keys()
