from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.score.paired import EXACT_UP_TO, RANDOM_FLIPS, _counted, holm, sign_flip_test, sign_flip_tests


def exhaustive(differences, alternative):
    """All 2^k assignments, in exact integer arithmetic."""
    observed = sum(differences)
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    if alternative == "greater":
        return sum(s >= observed for s in sums) / len(sums)
    return sum(abs(s) >= abs(observed) for s in sums) / len(sums)


def test_a_case_by_hand():
    # Signs of 3, 1, 1: |5| is reached by +++ and --- of 8 assignments.
    assert sign_flip_test(np.array([3.0, 1.0, 1.0])).p_value == 2 / 8
    assert sign_flip_test(np.array([3.0, 1.0, 1.0]), alternative="greater").p_value == 1 / 8
    assert sign_flip_test(np.array([3.0, 1.0, -1.0]), alternative="greater").p_value == 3 / 8


@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=10),
    st.sampled_from(["two-sided", "greater"]),
)
def test_the_exact_test_goes_through_all_assignments(differences, alternative):
    test = sign_flip_test(np.array(differences, dtype=float), alternative=alternative)
    assert test.exact
    assert test.p_value == pytest.approx(exhaustive(differences, alternative), abs=1e-12)
    assert test.informative_turns == sum(d != 0 for d in differences)
    assert test.difference == sum(differences)


def test_turns_without_a_difference_change_nothing():
    some = np.array([2.0, 1.0, 1.0, -1.0, 3.0])
    padded = np.concatenate([some, np.zeros(200)])
    assert sign_flip_test(padded) == sign_flip_test(some)


def test_identical_candidates_show_nothing():
    test = sign_flip_test(np.zeros(30))
    assert (test.p_value, test.informative_turns, test.difference) == (1.0, 0, 0.0)


def by_convolution(differences):
    """The two-sided p-value from the law of an integer sum, by rolling an array of all sums."""
    span = int(np.abs(differences).sum())
    law = np.zeros(2 * span + 1)
    law[span] = 1
    for value in np.abs(differences).astype(int):
        law = (np.roll(law, value) + np.roll(law, -value)) / 2
    observed = int(abs(differences.sum()))
    return law[np.abs(np.arange(-span, span + 1)) >= observed].sum()


def many_turns():
    differences = np.random.default_rng(5).integers(-3, 5, 24).astype(float)
    differences[differences == 0] = 1
    assert len(differences) > EXACT_UP_TO
    return differences


def test_counts_of_many_turns_are_tested_exactly():
    differences = many_turns()
    test = sign_flip_test(differences)
    assert test.exact
    assert test.p_value == pytest.approx(by_convolution(differences), rel=1e-12)
    # Of 80 equal turns two assignments of 2^80 are as far out.
    assert sign_flip_test(np.ones(80)).p_value == pytest.approx(2.0**-79)
    assert sign_flip_test(-np.ones(80), alternative="greater").p_value == 1


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12), st.sampled_from(["two-sided", "greater"]))
def test_counting_assignments_agrees_with_going_through_them(differences, alternative):
    counted = _counted(np.array(differences, dtype=float), alternative)
    assert counted == pytest.approx(exhaustive(differences, alternative), abs=1e-12)


def test_random_assignments_agree_with_exhaustive_enumeration():
    differences = many_turns()
    exact = by_convolution(differences)
    # Thirds are no whole numbers; the signs' sums are as far out as before.
    test = sign_flip_test(differences / 3)
    assert not test.exact
    assert test.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / RANDOM_FLIPS))


def test_a_random_p_value_is_never_zero():
    test = sign_flip_test(np.full(80, 0.1))
    assert test.p_value == 1 / (RANDOM_FLIPS + 1)


def test_sums_that_tie_in_exact_arithmetic_count_also_in_floats():
    # 0.1 + 0.2 - 0.3 is not 0 in floats, so ties with the observed sum differ in their last bits.
    values = [0.1, 0.2, 0.3, 0.7]
    assert sign_flip_test(np.array(values)).p_value == exhaustive([1, 2, 3, 7], "two-sided")
    shuffled = np.array([0.3, 0.7, 0.1, -0.2])
    assert sign_flip_test(shuffled).p_value == exhaustive([3, 7, 1, -2], "two-sided")


def test_pairs_tested_together_are_tested_as_alone():
    random = np.random.default_rng(2)
    table = random.integers(-2, 4, (40, 4)).astype(float)
    table[:, 0] /= 3
    table[30:, 1] = 0
    table[:, 1] /= 3
    table[15:, 2] = 0
    together = sign_flip_tests(table)
    assert [test.exact for test in together] == [False, False, True, True]
    assert together == tuple(sign_flip_test(table[:, pair]) for pair in range(4))


def test_the_test_keeps_its_level_on_clustered_data():
    """Two equal candidates in turns of unequal length: a difference is shown in at most about 5 % of sessions."""
    random = np.random.default_rng(8)
    shown = 0
    for _ in range(400):
        n = np.maximum(1, random.lognormal(2.5, 0.8, 18)).astype(int)
        rate = random.beta(0.6, 11, 18)
        shown += sign_flip_test((random.binomial(n, rate) - random.binomial(n, rate)).astype(float)).p_value <= 0.05
    assert shown / 400 <= 0.07


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.04, 0.3 times 4, 3, 2, 1, never falling.
    assert holm([0.04, 0.01, 0.3, 0.02]) == pytest.approx((0.08, 0.04, 0.3, 0.06))
    assert holm([0.01, 0.011]) == pytest.approx((0.02, 0.02))
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_lies_between_the_plain_and_bonferroni_s_p_value(p_values):
    for plain, adjusted in zip(p_values, holm(p_values), strict=True):
        assert plain <= adjusted <= min(1.0, len(p_values) * max(p_values))
        assert adjusted >= plain
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(holm(p_values))[order]) >= 0)
