"""Drawn positions: as many as asked for, of the lock's own, whatever its policy, and nobody can foresee them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.manifest.lock import LockedCapture
from suite.reproduce.draw import draw, positions_of

NUM_TOKENS = 200


def policy(*, path="prefill", stride=None, ranges=()):
    return LockedCapture(
        path=path, stride=stride, ranges=tuple(ranges), codec="auto", rows_per_gemm=64, chunk_rows=128, neighbours=None
    )


@st.composite
def disjoint_ranges(draw_one, least=0):
    bounds = draw_one(st.lists(st.integers(1, NUM_TOKENS), min_size=2 * least, max_size=12, unique=True))
    bounds = sorted(bounds)[: len(bounds) // 2 * 2]
    return tuple(zip(bounds[::2], bounds[1::2], strict=True))


@given(st.one_of(st.none(), st.integers(1, 9)), disjoint_ranges(), st.data())
def test_prefill_gives_exactly_the_drawn_positions(stride, ranges, data):
    capture = policy(stride=stride, ranges=ranges)
    known = positions_of(capture, num_tokens=NUM_TOKENS)
    if not known:
        return
    count = data.draw(st.integers(1, len(known)))
    drawn = draw(capture, num_tokens=NUM_TOKENS, count=count)
    positions = positions_of(drawn, num_tokens=NUM_TOKENS)
    assert len(positions) == count
    assert set(positions) <= set(known)
    assert drawn.stride is None
    assert drawn.model_copy(update={"stride": stride, "ranges": ranges}) == capture
    ends = [0, *(bound for one in drawn.ranges for bound in one)]
    assert ends == sorted(ends)


@given(disjoint_ranges(least=1), st.data())
def test_decode_gives_whole_ranges_until_they_hold_enough(ranges, data):
    capture = policy(path="decode", ranges=ranges)
    known = positions_of(capture, num_tokens=NUM_TOKENS)
    if not known:
        return
    count = data.draw(st.integers(1, len(known)))
    drawn = draw(capture, num_tokens=NUM_TOKENS, count=count)
    positions = positions_of(drawn, num_tokens=NUM_TOKENS)
    assert set(drawn.ranges) <= set(ranges)
    assert len(positions) >= count
    assert set(positions) <= set(known)
    # None too many: without any one of them there would be too few, or it was the last drawn.
    sizes = [len(positions_of(policy(path="decode", ranges=(one,)), num_tokens=NUM_TOKENS)) for one in drawn.ranges]
    assert len(positions) - max(sizes) < count


def test_every_position_is_drawn_as_often_as_any_other():
    capture = policy(stride=20)
    known = positions_of(capture, num_tokens=NUM_TOKENS)
    source = random.Random(7)
    counts = dict.fromkeys(known, 0)
    for _ in range(2_000):
        for position in positions_of(
            draw(capture, num_tokens=NUM_TOKENS, count=3, random=source), num_tokens=NUM_TOKENS
        ):
            counts[position] += 1
    expected = 2_000 * 3 / len(known)
    assert all(abs(count - expected) < 6 * expected**0.5 for count in counts.values())


def test_nobody_can_foresee_a_draw():
    random.seed(1)
    draws = set()
    for _ in range(5):
        random.seed(1)
        draws.add(draw(policy(stride=1), num_tokens=NUM_TOKENS, count=20).ranges)
    assert len(draws) == 5


@pytest.mark.parametrize("count", [0, -1, 11, 10_000])
def test_no_other_number_is_drawn(count):
    with pytest.raises(InvalidInput, match="cannot be drawn of"):
        draw(policy(stride=20), num_tokens=NUM_TOKENS, count=count)
