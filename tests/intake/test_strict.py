import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.intake.limits import LIMITS
from suite.intake.refusal import Refused
from suite.intake.strict import bounded_json, check_shown_text, check_text

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_honest_json_passes(value, ascii_only, indent):
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    try:
        data.encode()
    except UnicodeEncodeError:
        return
    assert bounded_json(data.encode(), where="x", limits=LIMITS) == value


@given(st.binary())
def test_anything_else_is_refused(data):
    with suppress(Refused):
        bounded_json(data, where="x", limits=LIMITS)
        json.loads(data)


def test_brackets_in_strings_are_no_depth():
    assert bounded_json(b'{"a": "[[[[\\"[[' + b"[" * 100 + b'"}', where="x", limits=LIMITS)["a"].startswith("[[[[")


def test_digits_in_strings_are_no_number():
    digits = "1" * 1000
    assert bounded_json(f'["{digits}"]'.encode(), where="x", limits=LIMITS) == [digits]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cf"])))
def test_plain_text_passes(text):
    check_text(text, where="x")


@pytest.mark.parametrize("text", ["<b>", "a </b", "<!--", "&#60;", "&lt;", "JavaScript:alert(1)", "[x](//y)"])
def test_markup(text):
    with pytest.raises(Refused) as error:
        check_shown_text({"a": [{"b": text}]}, where="x")
    assert error.value.code == "markup"
    assert error.value.where == "x: a.b"
    check_shown_text({"a": text}, where="x", markup=False)


@pytest.mark.parametrize("text", ["a < b", "x<3", "R&D", "a & b;", "5 <= 6"])
def test_no_markup(text):
    check_shown_text([text], where="x")


def test_keys_are_looked_at():
    with pytest.raises(Refused):
        check_shown_text({"a\x1b": 1}, where="x")
