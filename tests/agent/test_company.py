import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.agent.company import company


def test_neighbours_are_nearly_as_long_and_stay_to_the_end():
    (first, more), (second, most) = company(np.arange(10), 5, neighbours=2, own_lengths={10})
    assert (first.tolist(), more) == (list(range(1, 10)), 6)
    assert (second.tolist(), most) == (list(range(2, 10)), 7)


@given(st.integers(1, 60), st.integers(0, 6), st.sets(st.integers(1, 60), max_size=20))
def test_no_neighbour_has_the_length_of_a_captured_prompt(length, neighbours, others):
    own = others | {length}
    try:
        made = company(np.arange(length), 3, neighbours=neighbours, own_lengths=own)
    except ValueError:
        assert len(set(range(1, length)) - own) < neighbours
        return
    lengths = [len(prompt) for prompt, _ in made]
    assert len(set(lengths)) == neighbours
    assert own.isdisjoint(lengths)
    assert all(len(prompt) + tokens == length + 3 for prompt, tokens in made)


def test_a_prompt_too_short_for_them_is_refused():
    with pytest.raises(ValueError, match="4 neighbours"):
        company(np.arange(4), 1, neighbours=4, own_lengths={4})
