from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.card.numbers import find_numbers, writes_decimal_commas


def read(text, **options):
    return [(n.value, n.unit) for n in find_numbers(text, **options)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("156 of 7,114 (2.2 %)", [(156, ""), (7114, ""), (2.2, "%")]),
        ("7 114 positions", [(7114, "")]),
        ("7\u202f114", [(7114, "")]),
        ("12'345", [(12345, "")]),
        ("0,0123 nats", [(0.0123, "nats")]),
        ("1.234,56", [(1234.56, "")]),
        ("1,234.56", [(1234.56, "")]),
        ("1.2e-3, 2.4 × 10⁻², 2x10^-3", [(0.0012, ""), (0.024, ""), (0.002, "")]),
        ("100K tokens", [(100_000, "")]),
        ("a 100K-token prompt", [(100_000, "")]),
        ("3.3 per cent, 2 Prozent", [(3.3, "%"), (2, "%")]),
        ("−0.5 and -0.25", [(-0.5, ""), (-0.25, "")]),
        (".05 bits", [(0.05, "bits")]),
        ("为0.0213，共7114个", [(0.0213, ""), (7114, "")]),
        ("vLLM 0.25.1 of 2026-11-29, top-1, Qwen3.8-27B, sha256:12ab, p99.9", []),
        ("1,23,4 and 1.2.3", []),
    ],
)
def test_what_people_write(text, numbers):
    assert read(text) == numbers


def test_a_point_may_group_thousands():
    assert read("7.114") == [(7.114, "")]
    assert read("7.114", decimal_comma=True) == [(7114, "")]
    assert writes_decimal_commas("im Mittel 0,0213 nats, 2,2 % von 7.114")
    assert not writes_decimal_commas("mean 0.0213 nats, 2.2 % of 7,114")


@given(st.integers(0, 10**9))
def test_a_grouped_integer_is_that_integer(value):
    assert read(f"{value:,} positions") == [(value, "")]
    number = next(iter(find_numbers(f"{value:,}")))
    assert number.is_whole


@given(st.floats(1e-9, 1e6), st.integers(1, 9))
def test_a_written_float_is_the_double_that_it_spells(value, digits):
    text = f"{value:.{digits}e}"
    assert read(text) == [(float(text), "")]


@given(st.text(max_size=200))
def test_any_text_can_be_searched(text):
    for number in find_numbers(text):
        assert text[number.start : number.end].strip() == number.text
