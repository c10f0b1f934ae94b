from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.workload.rendered import Flag, Rendered, Span, Turn, tokens_sha256

IDS = tuple(range(10))


def span(start: int, end: int, kind: str, turn: int = 0, label: str | None = None) -> Span:
    return Span(start=start, end=end, kind=kind, turn=turn, label=label)  # type: ignore[arg-type]


def good(**changes: Any) -> Rendered:
    values: dict[str, Any] = {
        "token_ids": IDS,
        "spans": (
            span(0, 2, "scaffold"),
            span(2, 9, "assistant_output"),
            span(3, 5, "reasoning"),
            span(5, 8, "tool_call", label="run"),
            span(6, 7, "literal", label="5432"),
            span(9, 10, "scaffold"),
        ),
        "turns": (Turn(index=0, role="assistant", start=0, end=10, output_start=2),),
        "workload_digest": "0" * 64,
        "tokens_sha256": tokens_sha256(IDS),
        "tokenizer_sha256": "1" * 64,
        "chat_template_sha256": "2" * 64,
        "flags": (Flag(turn=0, role="assistant", text="<x>", reason="because"),),
    }
    return Rendered(**{**values, **changes})


def test_json_round_trip() -> None:
    rendered = good()
    again = Rendered.from_json(rendered.to_json())
    assert again == rendered
    assert again.to_json() == rendered.to_json()


def test_tokens_hash_is_of_little_endian_int32() -> None:
    assert tokens_sha256([1, 258]) == hashlib.sha256(b"\x01\x00\x00\x00\x02\x01\x00\x00").hexdigest()


def test_kinds_are_the_innermost_without_literals() -> None:
    kinds = good().kinds()
    assert kinds == (
        "scaffold", "scaffold", "assistant_output", "reasoning", "reasoning", "tool_call", "tool_call", "tool_call",
        "assistant_output", "scaffold",
    )  # fmt: skip
    assert [index for index, inside in enumerate(good().literal_mask()) if inside] == [6]
    assert good().turn_indices() == (0,) * 10


def test_ranges_merge_what_overlaps() -> None:
    assert good().ranges(["tool_call", "literal"]) == ((5, 8),)
    assert good().ranges(["reasoning", "tool_call"]) == ((3, 5), (5, 8))
    assert good().ranges(["user"]) == ()


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (span(0, 9, "user"),),
        (span(1, 10, "user"),),
        (span(0, 6, "user"), span(5, 10, "scaffold")),
        (span(0, 10, "user"), span(4, 4, "literal")),
        (span(0, 10, "user"), span(4, 11, "literal")),
        (span(0, 5, "user"), span(3, 7, "tool_call"), span(5, 10, "scaffold")),
        (span(0, 10, "user"), span(2, 6, "reasoning"), span(4, 8, "tool_call")),
        (span(0, 10, "song"),),
        (span(0, 10, "user", turn=1),),
        (span(5, 10, "user"), span(0, 5, "scaffold")),
    ],
)
def test_bad_spans_are_refused(spans: tuple[Span, ...]) -> None:
    with pytest.raises(ValueError, match=r"span|gap|order"):
        good(spans=spans)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens_sha256": "0" * 64},
        {"token_ids": (*IDS[:-1], -1)},
        {"token_ids": (*IDS[:-1], 2**31)},
        {"token_ids": (*IDS[:-1], True)},
        {"turns": ()},
        {"turns": (Turn(index=0, role="user", start=0, end=9, output_start=None),)},
        {"turns": (Turn(index=1, role="user", start=0, end=10, output_start=None),)},
        {"turns": (Turn(index=0, role="user", start=0, end=10, output_start=11),)},
    ],
)
def test_bad_ids_and_turns_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"token|turn"):
        good(**changes)


@pytest.mark.parametrize("key", ["token_ids", "spans", "turns", "flags", "tokens_sha256", "schema_version"])
def test_a_missing_key_is_refused(key: str) -> None:
    value = json.loads(good().to_json())
    del value[key]
    with pytest.raises(InvalidInput):
        Rendered.from_json(json.dumps(value).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b'{"schema_version": 2}', b'{"schema_version": 1, "more": 1}'])
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        Rendered.from_json(data)


@given(st.lists(st.integers(min_value=0, max_value=2**31 - 1), min_size=1, max_size=40), st.data())
def test_any_partition_is_accepted_and_survives(ids: list[int], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(ids))))) or [len(ids)]
    edges = [0, *cuts] if cuts[-1] == len(ids) else [0, *cuts, len(ids)]
    spans = tuple(span(a, b, "user" if i % 2 else "scaffold") for i, (a, b) in enumerate(pairwise(edges)))
    rendered = replace(
        good(),
        token_ids=tuple(ids),
        tokens_sha256=tokens_sha256(ids),
        spans=spans,
        turns=(Turn(index=0, role="user", start=0, end=len(ids), output_start=None),),
    )
    assert Rendered.from_json(rendered.to_json()) == rendered
    assert len(rendered.kinds()) == len(ids)
