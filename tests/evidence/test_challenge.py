from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.evidence.challenge import Challenge, draw_leaves, make_challenge, parse_challenge
from suite.files import pretty_json, sha256_bytes

ROOT, NONCE = "ab" * 32, "cd" * 32


def drawn(leaves, draw, *, root=ROOT, nonce=NONCE):
    return list(draw_leaves(root, nonce, leaves=leaves, draw=draw))


@given(st.integers(1, 500), st.data())
def test_leaves_are_drawn_without_replacement(leaves, data):
    draw = data.draw(st.integers(1, leaves))
    found = drawn(leaves, draw)
    assert len(set(found)) == draw
    assert all(0 <= leaf < leaves for leaf in found)
    assert found == drawn(leaves, leaves)[:draw]


def test_both_sides_draw_the_same_for_all_time():
    assert drawn(7114, 6) == PINNED


# Computed once from the definition; a change of it would make published challenges unanswerable.
PINNED = [1172, 2622, 2061, 5447, 5578, 4448]


def test_every_leaf_is_equally_likely():
    counts = Counter(leaf for n in range(3000) for leaf in drawn(10, 3, nonce=sha256_bytes(str(n).encode())))
    # 900 expected each, with a standard deviation of 25.
    assert all(abs(counts[leaf] - 900) < 125 for leaf in range(10))


def test_another_root_or_nonce_draws_others():
    assert len({tuple(drawn(7114, 8)), tuple(drawn(7114, 8, root="00" * 32)), tuple(drawn(7114, 8, nonce=ROOT))}) == 3


def challenge(**changes):
    return {"schema_version": 1, "root": ROOT, "leaves": 9, "nonce": NONCE, "draw": 3} | changes


def test_it_is_read_as_it_was_written():
    made = Challenge(**challenge())
    assert parse_challenge(made.to_bytes(), where="c") == made
    assert made.indices == tuple(sorted(drawn(9, 3)))


@pytest.mark.parametrize(
    "changes",
    [{"draw": 10}, {"draw": 0}, {"nonce": "x"}, {"leaves": 1 << 25}, {"more": 1}, {"schema_version": 2}, {"draw": "3"}],
)
def test_what_is_no_challenge_is_refused(changes):
    with pytest.raises(InvalidInput):
        parse_challenge(pretty_json(challenge(**changes)), where="c")


class Committed:
    """What of a commitment a challenge rests on."""

    root = ROOT

    def __init__(self, leaves):
        self.leaves = leaves


@pytest.mark.parametrize(("leaves", "draw", "expected"), [(9, None, 9), (7114, None, 512), (9, 3, 3)])
def test_so_many_are_drawn(leaves, draw, expected):
    assert make_challenge(Committed(leaves), draw=draw).draw == expected


@pytest.mark.parametrize("draw", [0, 10])
def test_so_many_cannot_be_drawn(draw):
    with pytest.raises(InvalidInput, match="cannot be drawn"):
        make_challenge(Committed(9), draw=draw)


def test_a_nonce_is_new_each_time():
    assert len({make_challenge(Committed(9)).nonce for _ in range(4)}) == 4
