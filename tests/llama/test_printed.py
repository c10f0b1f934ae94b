import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.llama.printed import parse_printed, render_printed
from suite.llama.statistics import summary_statistics
from tests.llama.test_statistics import columns


def test_the_real_text_is_read_and_written_again_byte_for_byte(printed_text):
    assert render_printed(parse_printed(printed_text)) == printed_text.rstrip("\n") + "\n"


@given(st.integers(100, 400), st.integers(0, 99))
def test_what_is_written_is_read(n, seed):
    figures = summary_statistics(columns(n, seed))
    read = parse_printed(render_printed(figures))
    assert [(f.section, f.name, f.unit) for f in read] == [(f.section, f.name, f.unit) for f in figures]
    for mine, theirs in zip(figures, read, strict=True):
        assert theirs.value == pytest.approx(mine.value, abs=6e-3)
        assert (theirs.half_width is None) == (mine.half_width is None)


def test_the_summary_is_found_inside_a_whole_log(printed_text):
    log = (
        "llama_perf: 12.5 ms\nsystem: n_threads = 4\n" + printed_text + "\nllama_perf_context_print: load time = 3.2\n"
    )
    assert parse_printed(log) == parse_printed(printed_text)


def test_older_logs_with_an_ascii_sign_are_read():
    (figure,) = parse_printed("====== Perplexity statistics ======\nMean PPL(Q)  :  20.317844 +/-   5.769694\n")
    assert (figure.name, figure.value, figure.half_width) == ("Mean PPL(Q)", 20.317844, 5.769694)


@pytest.mark.parametrize(
    "text", ["", "Final estimate: PPL = 16.44 +/- 4.6\n", "====== Other statistics ======\na: 1.0\n"]
)
def test_text_without_a_summary_is_refused(text):
    with pytest.raises(InvalidInput, match="no statistics"):
        parse_printed(text)
