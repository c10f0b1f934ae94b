import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from suite.plain_text import PlainText, require_plain

TEXT = TypeAdapter(PlainText)


@pytest.mark.parametrize("text", ["", "a\nb", "Größe: 5 µs", "これは", "a" * 2000, "🙂"])
def test_words_and_line_breaks_pass(text):
    assert TEXT.validate_python(text) == text


@pytest.mark.parametrize("text", ["\x00", "\t", "\r\n", "\x1b[0m", "\u202e", "\u200d", "\ufeff", "\u2028", "\ue000"])
def test_what_does_not_print_is_refused(text):
    with pytest.raises(ValidationError, match="not printable"):
        TEXT.validate_python(f"a{text}")


def test_too_much_is_refused():
    with pytest.raises(ValidationError, match="2000"):
        TEXT.validate_python("a" * 2001)


@given(st.text(max_size=50))
def test_what_passes_moves_no_terminal(text):
    try:
        passed = require_plain(text)
    except ValueError:
        return
    assert all(c == "\n" or not unicodedata.category(c).startswith("C") for c in passed)
