from hypothesis import given
from hypothesis import strategies as st

from suite.compare.sparkline import sparkline


def test_blocks_are_shares_of_the_top():
    assert sparkline([0, 1, 4, 8], top=8) == "·▁▄█"
    assert sparkline([1], top=100) == "▁"
    assert sparkline([0, 0], top=0) == "··"


@given(st.lists(st.integers(0, 1000), max_size=40))
def test_higher_counts_never_have_lower_blocks(counts):
    order = "·▁▂▃▄▅▆▇█"
    drawn = sparkline(counts, top=max(counts, default=0))
    assert len(drawn) == len(counts)
    for count, sign in zip(counts, drawn, strict=True):
        assert (sign == "·") == (count == 0)
    heights = sorted(zip(counts, (order.index(sign) for sign in drawn), strict=True))
    assert [height for _, height in heights] == sorted(height for _, height in heights)
