from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.workload.literals import occurrences


@pytest.mark.parametrize(
    ("literal", "text", "expected"),
    [
        ("GigabitEthernet0/0/1", "GigabitEthernet0/0/1.201", []),
        ("GigabitEthernet0/0/1", "on GigabitEthernet0/0/1.", [(3, 23)]),
        ("5432", "543ql 5432, 15432 54321", [(6, 10)]),
        ("10.0.0.5", "10.0.0.5/24 and 10.0.0.5", [(16, 24)]),
        ("0/0/1", "GigabitEthernet0/0/1", []),
        ("page_size", "size page_size=5", [(5, 14)]),
        ("db-1", "db-1 db-1.harbour.example mydb-1 db-12", [(0, 4)]),
        ("--vacuum-size=200M", "journalctl --vacuum-size=200M", [(11, 29)]),
        ("a", "", []),
        ("", "abc", []),
    ],
)
def test_whole_words_only(literal: str, text: str, expected: list[tuple[int, int]]) -> None:
    assert list(occurrences(literal, text)) == expected


@given(st.text(min_size=1), st.text(), st.text())
def test_what_is_found_is_the_literal_itself(literal: str, before: str, after: str) -> None:
    text = f"{before} {literal} {after}"
    found = list(occurrences(literal, text))
    assert all(text[start:end] == literal for start, end in found)
    assert all(first[1] <= second[0] for first, second in pairwise(found))


@given(st.from_regex(r"[A-Za-z0-9]{1,12}", fullmatch=True), st.text())
def test_a_word_between_spaces_is_found(literal: str, around: str) -> None:
    assert list(occurrences(literal, f"{around} {literal} {around}"))
