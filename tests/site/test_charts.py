from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.site.charts import CLASSES, STRIP_BINS, class_bar, histogram, strip_paths
from suite.site.facts import WindowFacts


def window(tied, uncertain, leaning, confident):
    return WindowFacts(
        key=0,
        n=1000,
        flips=tied + uncertain + leaning + confident,
        flips_tied=tied,
        flips_uncertain=uncertain,
        flips_leaning=leaning,
        flips_confident=confident,
    )


@given(st.tuples(*[st.integers(0, 300)] * 4), st.integers(0, 500))
def test_a_bar_is_as_long_as_its_share_and_its_parts_meet(counts, more):
    bar = class_bar(window(*counts), top=sum(counts) + more, width=100)
    assert [part.count for part in bar] == [count for count in counts if count]
    assert [part.kind for part in bar] == [kind for kind, count in zip(CLASSES, counts, strict=True) if count]
    if bar:
        assert sum(part.width for part in bar) == pytest.approx(100 * sum(counts) / (sum(counts) + more), abs=0.05)
        for left, right in pairwise(bar):
            assert right.x == pytest.approx(left.x + left.width, abs=0.02)


def test_a_strip_has_a_tick_for_each_letter_taller_where_it_is_graver():
    strip = ".t" + "." * (STRIP_BINS - 4) + "cu"
    paths = dict(strip_paths(strip, width=STRIP_BINS * 2, height=10))
    assert paths == {"tied": "M3 10v-4", "uncertain": "M1199 10v-6", "confident": "M1197 10v-10"}
    assert strip_paths("." * STRIP_BINS) == ()


def test_a_histogram_keeps_its_counts_and_marks_rounding():
    chart = histogram([0, 4, 2] + [0] * 37, rounding=1e-8, width=400, height=100)
    assert [bar[4] for bar in chart.bars] == [4, 2]
    assert [bar[3] for bar in chart.bars] == [100, 50]
    assert [mark.at for mark in chart.marks] == [0]
    assert histogram([0] * 40, rounding=None).bars == ()
