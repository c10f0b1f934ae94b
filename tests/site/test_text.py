import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from suite.site.text import LIMIT, visible

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(), max_size=900), st.booleans())
def test_nothing_unseen_is_left_and_nothing_is_endless(text, lines):
    shown = visible(text, lines=lines)
    left = {char for char in shown if unicodedata.category(char) in UNSEEN}
    assert left <= ({"\n", "\t"} if lines else set())
    # Each character becomes nine at most, and the mark of a cut is short.
    assert len(shown) <= 10 * LIMIT + 30


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=LIMIT))
def test_plain_text_stays_as_it_is(text):
    assert visible(text) == text


def test_what_is_done_to_a_name_is_seen():
    assert visible("ab\u202egnp") == "ab[U+202E]gnp"
    assert visible("zero\u200bwidth") == "zero[U+200B]width"
    assert visible("a\x00b\x1b[31m\n") == "a[U+0000]b[U+001B][31m[U+000A]"
    assert visible("two\nlines", lines=True) == "two\nlines"
    assert visible("\ud800") == "[U+D800]"


def test_letters_of_any_script_stay():
    assert visible("Qwen – 通义千问, é, שלום") == "Qwen – 通义千问, é, שלום"


def test_letters_cannot_tower():
    assert visible("e" + "\u0301" * 40) == "e" + "\u0301" * 4


def test_a_long_name_is_cut_and_says_so():
    assert visible("x" * 10_000, limit=5) == "xxxxx… (10,000 characters)"
