"""Numbers, names and addresses as pages write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.site import numbers
from suite.site.labels import short_names
from suite.site.slugs import slug


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0243, "0.0243"), (0.00062306, "0.000623"), (6.2e-5, "6.2e-05"), (2.5678, "2.57"), (None, "invalid")],
)
def test_divergences(value, text):
    assert numbers.nats(value) == text


def test_counts_shares_sizes_and_bounds():
    assert numbers.count(7177) == "7,177"
    assert (numbers.share(379, 7177), numbers.share(13, 3512), numbers.share(0, 5)) == ("5.3 %", "0.37 %", "0.0 %")
    assert [numbers.size(n) for n in (0, 999, 11_520, 163_228_064, 3_000_000_000)] == [
        "0 B",
        "999 B",
        "11.5 kB",
        "163 MB",
        "3.0 GB",
    ]
    assert (numbers.bound(62.6), numbers.bound(1.49), numbers.bound(1637.4)) == ("63", "1.5", "1,637")
    assert (numbers.p_value(0.16), numbers.p_value(1e-9)) == ("p = 0.16", "p < 0.001")


def test_rows_of_a_table_lose_what_all_of_them_say():
    names = ["h200-smollm2-kv-int8", "h200-smollm2-kv-fp8", "h200-smollm2-flex"]
    assert list(short_names(names).values()) == ["kv-int8", "kv-fp8", "flex"]
    assert short_names(["h200-smollm2-flex"]) == {"h200-smollm2-flex": "h200-smollm2-flex"}
    assert short_names(["a", "a-b"]) == {"a": "a", "a-b": "a-b"}


@given(st.lists(st.from_regex(r"[a-z0-9]{1,3}(-[a-z0-9]{1,3}){0,4}", fullmatch=True), min_size=1, max_size=6))
def test_short_names_are_still_told_apart(names):
    short = short_names(names)
    assert len(set(short.values())) == len(set(names))
    assert all(short[name] and name.endswith(short[name]) for name in names)


@given(st.text(max_size=300))
def test_a_slug_is_safe_in_an_address(text):
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", slug(text))
    assert len(slug(text)) <= 70


def test_slugs_are_plain_where_names_are_and_told_apart_where_they_are_not():
    assert slug("RTX PRO 6000 Blackwell") == "rtx-pro-6000-blackwell"
    assert slug("../../etc") != slug("etc")
    assert slug("a/b") != slug("a b")
