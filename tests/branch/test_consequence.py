"""Consequences: each class from futures that show it, and where futures come together again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.branch.consequence import SOON_TOKENS, consequence_of, meeting
from suite.branch.schema import Future
from suite.grade.record import CallRecord, LiteralsRecord

END = 2


def call(verdict: str = "ok", *, arguments: dict[str, Any] | None = None, **literals: Any) -> CallRecord:
    found = {"intact": (), "missing": (), "mutated": (), "invented": ()} | literals
    return CallRecord(
        closed=verdict != "not closed",
        parsed=arguments is not None,
        name="ping",
        known_name=True,
        schema_valid=True,
        arguments=arguments,
        literals=LiteralsRecord(**found),
        verdict=verdict,
        first_fault=None,
    )


def future(ids: list[int], *, ended: bool = True, states: str | None = None, **values: Any) -> Future:
    tokens = (*ids, END) if ended else tuple(ids)
    common = {
        "role": "reference",
        "first_token_id": ids[0],
        "engine_token_id": ids[0],
        "finish": "turn_end" if ended else "length",
        "token_ids": tokens,
        "token_texts": tuple("x" for _ in tokens),
        "states": "o" * len(tokens) if states is None else states,
        "batch": 0,
        "order": 0,
        "cached_tokens": 0,
        "verdict": "no call" if ended else "truncated",
        "calls": (),
    }
    return Future(**(common | values))


def made(verdict: str, *calls: CallRecord, first: int = 11) -> Future:
    return future([first, 12], verdict=verdict, calls=calls)


OK = made("ok", call(arguments={"host": "a"}), first=10)
REST = list(range(100, 140))


def test_the_same_text_soon_again_is_absorbed_and_told_where() -> None:
    found = consequence_of(future([11, 12, *REST]), future([10, *REST]))
    assert (found.name, found.reference_at, found.at) == ("absorbed", 1, 2)


@pytest.mark.parametrize("late", [SOON_TOKENS, SOON_TOKENS + 1])
def test_the_same_text_too_late_is_not(late: int) -> None:
    found = consequence_of(future([11] * late + REST), future([10, *REST]))
    assert found.name == ("absorbed" if late == SOON_TOKENS else "other words")


def test_a_shared_full_stop_is_no_return() -> None:
    assert consequence_of(future([11, 50, 51]), future([10, 60, 51])).name == "other words"


def test_the_same_text_around_another_value_is_not_absorbed() -> None:
    other = future([11, *REST], verdict="ok", calls=(call(arguments={"host": "b"}),))
    reference = future([10, *REST], verdict="ok", calls=(call(arguments={"host": "a"}),))
    assert consequence_of(other, reference).name == "valid but different"


def test_the_same_calls_after_other_words_are_absorbed() -> None:
    other = made("ok", call(arguments={"host": "a"}))
    found = consequence_of(other, future([10, 60, 61], verdict="ok", calls=other.calls))
    assert (found.name, found.at) == ("absorbed", None)
    truth = made("ok", call(arguments={"host": True}))
    one = made("ok", call(arguments={"host": 1}), first=10)
    assert consequence_of(truth, one).name == "valid but different"


@pytest.mark.parametrize(
    ("verdict", "name"),
    [
        ("not closed", "broken envelope"),
        ("not parsed", "broken envelope"),
        ("call in reasoning", "broken envelope"),
        ("unknown name", "wrong command"),
        ("schema invalid", "wrong command"),
        ("wrong command", "wrong command"),
        ("literals changed", "wrong literal"),
        ("ok", "valid but different"),
    ],
)
def test_each_verdict_has_its_consequence(verdict: str, name: str) -> None:
    found = consequence_of(made(verdict, call(verdict, arguments={"host": "b"})), OK)
    assert (found.name, found.in_reference) == (name, False)


def test_a_fault_that_the_reference_shares_is_told_so() -> None:
    reference = made("unknown name", call("unknown name"), first=10)
    assert consequence_of(made("wrong command", call("wrong command")), reference).in_reference
    assert not consequence_of(made("not closed", call("not closed")), reference).in_reference


def test_an_argument_whose_name_changed_is_a_wrong_literal() -> None:
    changed = call("schema invalid", arguments={"size": 10}, mutated=(("page_size", "size"),))
    found = consequence_of(made("schema invalid", changed), OK)
    assert (found.name, found.detail) == ("wrong literal", "size stands for page_size")


def test_no_call_where_the_reference_makes_one_is_a_wrong_command() -> None:
    assert consequence_of(future([11, 12]), OK).name == "wrong command"
    assert consequence_of(OK, future([11, 12])).name == "valid but different"


def test_open_futures_are_undecided_unless_they_are_the_same_outside_a_call() -> None:
    reference, other = future([10, *REST], ended=False), future([11, *REST], ended=False)
    assert consequence_of(other, reference).name == "absorbed"
    inside = future([11, *REST], ended=False, states="v" * 41)
    assert consequence_of(inside, reference).name == "undecided"
    assert consequence_of(future([11, 12, 13], ended=False), OK).name == "undecided"
    assert consequence_of(OK, future([10, 12, 13], ended=False)).name == "undecided"


def test_a_fault_before_the_cap_is_decided_all_the_same() -> None:
    cut = future([11, 12], ended=False, verdict="not parsed", calls=(call("not parsed"),))
    assert consequence_of(cut, OK).name == "broken envelope"


def test_without_a_reference_only_faults_are_told() -> None:
    assert consequence_of(made("not closed", call("not closed")), None).name == "broken envelope"
    assert consequence_of(OK, None).name == "undecided"


def test_two_ended_futures_must_end_together() -> None:
    assert meeting(future([10, *REST]), future([11, *REST, 500])) is None
    assert meeting(future([10, *REST]), future([11, *REST], ended=False)) is not None
    assert meeting(future([10, *REST]), future([11, *REST, END, 7, 8], ended=False)) is None


ids = st.lists(st.integers(3, 6), min_size=1, max_size=40)


@given(ids, ids, st.booleans(), st.booleans())
def test_a_meeting_is_one_from_both_sides(a: list[int], b: list[int], a_ends: bool, b_ends: bool) -> None:
    first, second = future(a, ended=a_ends), future(b, ended=b_ends)
    found, turned = meeting(first, second), meeting(second, first)
    assert (found is None) == (turned is None)
    if found is not None and turned is not None:
        assert max(found.at, found.reference_at) == max(turned.at, turned.reference_at)
        ours, theirs = first.token_ids[found.reference_at :], second.token_ids[found.at :]
        assert all(x == y for x, y in zip(ours, theirs, strict=False))


@given(ids)
def test_what_is_told_is_json(a: list[int]) -> None:
    found = consequence_of(future(a), future([9, *a]))
    assert json.loads(found.model_dump_json())["name"] in ("absorbed", "other words")
