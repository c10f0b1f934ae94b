import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.capture.rows import to_float32
from suite.errors import InvalidInput
from suite.score.classes import flip_class, flip_classes
from suite.score.interface import KERNEL_COLUMNS
from suite.score.numpy_kernel import NumpyKernel
from tests.capture.synthetic import bf16
from tests.score.exact import exact_scores

KERNEL = NumpyKernel()
DIVERGENCES = ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation")
LOGITS = st.floats(min_value=-40, max_value=40, width=32, allow_subnormal=False)


def score(reference, candidate, targets=None):
    reference = np.atleast_2d(reference)
    targets = np.zeros(len(reference), dtype=np.int64) if targets is None else np.array(targets)
    return KERNEL.score_block(reference, None if candidate is None else np.atleast_2d(candidate), targets)


def one(reference, candidate, target=0):
    columns = score(np.float32([reference]), np.float32([candidate]), [target])
    return {name: values[0] for name, values in columns.items()}


@st.composite
def pairs(draw):
    width = draw(st.integers(2, 12))
    row = st.lists(LOGITS, min_size=width, max_size=width)
    return np.float32(draw(row)), np.float32(draw(row)), draw(st.integers(0, width - 1))


@pytest.mark.parametrize(
    ("reference", "candidate", "target"),
    [
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], 0),
        ([0.5, 0.25, -4.0, 8.0], [0.5, 0.375, -4.0, 7.5], 2),
        ([16.0, 15.875, 12.0, 1.0, -3.0], [15.875, 16.0, 12.5, 1.0, -3.0], 1),
        ([30.0, -30.0], [29.75, -30.0], 1),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_column_equals_its_definition_in_sixty_digits(reference, candidate, target, dtype):
    rows = [bf16([z]) if dtype == "bfloat16" else np.array([z], dtype=dtype) for z in (reference, candidate)]
    found = score(*rows, [target])
    expected = exact_scores(np.float32(reference), np.float32(candidate), target, dtype)
    for name, value in expected.items():
        assert found[name][0] == pytest.approx(value, rel=1e-12, abs=1e-15), name
    assert set(found) == set(KERNEL_COLUMNS)


@given(pairs())
def test_divergences_agree_with_the_exact_ones(pair):
    reference, candidate, target = pair
    nonzero = [np.where(z == 0, np.float32(1e-3), z) for z in (reference, candidate)]
    found = one(*nonzero, target)
    expected = exact_scores(*nonzero, target)
    for name in (*DIVERGENCES, "entropy_ref", "entropy_cand", "nll_ref", "nll_cand"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-12), name


@given(pairs())
def test_identities_hold(pair):
    reference, candidate, target = pair
    there, back = one(reference, candidate, target), one(candidate, reference, target)
    assert there["kl_ref_cand"] >= 0
    assert there["kl_cand_ref"] == pytest.approx(back["kl_ref_cand"], rel=1e-12, abs=1e-15)
    assert 0 <= there["jsd"] <= math.log(2)
    assert there["jsd"] == pytest.approx(back["jsd"], rel=1e-12, abs=1e-15)
    assert there["total_variation"] <= math.sqrt(there["kl_ref_cand"] / 2) + 1e-7
    assert there["flip"] == back["flip"]
    assert there["tied"] == back["tied"]
    assert (there["rank_ref_top1_in_cand"] == 1) == (not there["flip"])


@given(pairs())
def test_a_row_does_not_differ_from_itself(pair):
    reference, _, target = pair
    found = one(reference, reference.copy(), target)
    for name in ("kl_ref_cand", "kl_cand_ref", "total_variation"):
        assert found[name] == 0
    assert found["jsd"] == pytest.approx(0, abs=1e-15)
    assert not found["flip"]


@given(pairs(), st.integers(-64, 64))
def test_a_constant_added_to_all_logits_changes_no_divergence(pair, constant):
    # Quarters stay exact in float32 under the sum.
    reference, candidate, target = pair
    reference, candidate = np.round(reference * 4) / 4, np.round(candidate * 4) / 4
    plain = one(reference, candidate, target)
    moved = one(reference + np.float32(constant), candidate + np.float32(constant), target)
    for name in KERNEL_COLUMNS:
        if name not in ("rounding_kl", "ref_margin_ulps"):
            assert moved[name] == pytest.approx(plain[name], rel=1e-12, abs=1e-14), name


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_the_vocabulary_does_not_matter_but_to_the_tie_rule(pair, random):
    reference, candidate, target = pair
    order = list(range(len(reference)))
    random.shuffle(order)
    plain = one(reference, candidate, target)
    mixed = one(reference[order], candidate[order], order.index(target))
    for name in (*DIVERGENCES, "entropy_ref", "entropy_cand", "nll_ref", "nll_cand", "rounding_kl", "ref_margin_nats"):
        assert mixed[name] == pytest.approx(plain[name], rel=1e-12, abs=1e-14), name
    if all((side == side.max()).sum() == 1 for side in (reference, candidate)):
        assert order[mixed["ref_top1"]] == plain["ref_top1"]
        assert order[mixed["cand_top1"]] == plain["cand_top1"]
        assert mixed["rank_ref_top1_in_cand"] <= len(order)


def test_no_candidate_means_the_same_rows_exactly():
    rows = bf16(np.random.default_rng(0).normal(0, 5, (4, 300)))
    equal, copied = score(rows, None), score(rows, rows.copy())
    for name in KERNEL_COLUMNS:
        if name in DIVERGENCES:
            assert (equal[name] == 0).all()
        else:
            np.testing.assert_array_equal(equal[name], copied[name])


def test_the_lowest_id_wins_among_equal_logits():
    found = one([1, 7, 7, 0], [7, 1, 7, 7])
    assert (found["ref_top1"], found["cand_top1"]) == (1, 0)
    assert found["ref_margin_nats"] == found["ref_margin_ulps"] == found["cand_margin_nats"] == 0


@pytest.mark.parametrize(
    ("reference", "candidate", "tied", "rank"),
    [
        ([5, 5, 0], [4, 5, 0], True, 2),  # the candidate's choice is among the reference's best
        ([4, 5, 0], [5, 5, 0], True, 2),  # the reference's choice is among the candidate's best
        ([5, 4.75, 0], [4.75, 5, 0], False, 2),
        ([5, 5, 0], [0, 0, 5], False, 2),  # both have ties or not, but not on each other's choice
        ([0, 0, 5], [6, 6, 5], False, 3),
    ],
)
def test_a_flip_is_tied_if_either_choice_is_among_the_others_best(reference, candidate, tied, rank):
    found = one(reference, candidate)
    assert found["flip"]
    assert found["tied"] == tied
    assert found["rank_ref_top1_in_cand"] == rank


def test_ties_are_those_of_the_stored_dtype():
    # 16.0 and 16.03 are one BF16 number, and two float32 numbers.
    exact = np.float32([[16.0, 16.03, 0], [16.03, 16.0, 0]])
    assert not score(exact[:1], exact[1:])["tied"][0]
    rounded = score(bf16(exact[:1]), bf16(exact[1:]))
    assert not rounded["flip"][0]
    mixed = score(bf16(exact[:1]), exact[:1])
    assert mixed["flip"][0]
    assert mixed["tied"][0]


def test_public_case_exact_tie():
    """vllm#5543: the reference gives ids 11 and 42 the same log-probability, the candidate prefers 42."""
    reference = np.full((1, 64), -20, dtype=np.float32)
    candidate = reference.copy()
    reference[0, [11, 42]] = [-0.698735237121582, -0.698735237121582]
    candidate[0, [11, 42]] = [-0.758735237121582, -0.698735237121582]
    found = score(reference, candidate)
    assert (found["ref_top1"][0], found["flip"][0], found["tied"][0]) == (11, True, True)
    assert flip_classes(found["flip"], found["tied"], found["ref_p_ref_top1"]).tolist() == ["tied"]


def test_public_case_padding_and_nan():
    """rtx6kpro: columns 8 and 9 are padding filled with 1e4, and row 3 is NaN."""
    rows = np.random.default_rng(0).normal(0, 2, (4, 10)).astype(np.float32)
    rows[:, 8:] = 1e4
    rows[3] = np.nan
    cut = np.ascontiguousarray(rows[:, :8])
    found = score(cut, cut + np.float32(0.25))
    assert found["finite_ref"].tolist() == found["finite_cand"].tolist() == [True, True, True, False]
    assert (found["ref_top1"][:3] < 8).all()
    assert not np.isnan(found["kl_ref_cand"][:3]).any()
    for name, kind in KERNEL_COLUMNS.items():
        if kind is np.float64:
            assert np.isnan(found[name][3]), name
    assert (found["ref_top1"][3], found["cand_top1"][3], found["rank_ref_top1_in_cand"][3]) == (-1, -1, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_one_bad_number_on_either_side_makes_the_probe_invalid(bad, side):
    rows = np.ones((2, 2, 5), dtype=np.float32) * np.arange(5, dtype=np.float32)
    rows[side, 1, 2] = bad
    found = score(rows[0], rows[1])
    assert found[("finite_ref", "finite_cand")[side]].tolist() == [True, False]
    assert found[("finite_cand", "finite_ref")[side]].tolist() == [True, True]
    assert np.isnan(found["jsd"]).tolist() == [False, True]
    assert found["flip"].tolist() == [False, False]


def test_probabilities_that_underflow_do_no_harm():
    found = one([0, -3e38, 80], [3e38, 0, -3e38], target=1)
    assert found["kl_ref_cand"] == pytest.approx(3e38 - (-3e38), rel=1e-6)
    assert found["jsd"] == pytest.approx(math.log(2), rel=1e-12)
    assert found["total_variation"] == 1


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@given(data=st.data())
def test_margin_in_ulps_is_counted_in_the_spacing_at_the_largest(dtype, data):
    kind = np.dtype(dtype)
    width = 16 if dtype == "float16" else 32
    logits = data.draw(st.lists(st.floats(-1000, 1000, width=width), min_size=2, max_size=5))
    row = np.array([logits], dtype=kind)
    found = score(row, None)
    best = row.max()
    second = np.partition(row[0].astype(np.float64), -2)[-2]
    spacing = float(np.spacing(np.abs(best)))
    if abs(best) < np.finfo(kind).tiny:
        spacing = float(np.finfo(kind).smallest_subnormal)
    assert found["ref_margin_ulps"][0] == (float(best) - second) / spacing


def test_rounding_kl_is_what_rounding_makes_on_average():
    random = np.random.default_rng(1)
    exact = np.concatenate([random.uniform(17, 31, (1, 40)), random.uniform(-5, 9, (1, 400))], axis=1)
    noise = random.uniform(-0.4, 0.4, (600, 1))
    # The same exact numbers rounded on two grids that lie randomly to each other: both roundings are independent.
    ours, theirs = bf16(exact + noise), bf16(exact + noise[::-1])
    unshifted = [to_float32(side) - shift for side, shift in ((ours, noise), (theirs, noise[::-1]))]
    found = score(*(np.float32(side) for side in unshifted))
    claimed = score(ours, theirs)["rounding_kl"].mean()
    assert claimed == pytest.approx(found["kl_ref_cand"].mean(), rel=0.1)
    assert 3e-4 < claimed < 1.31e-3
    assert found["rounding_kl"].max() < 1e-12  # float32 rows carry next to no rounding


def test_shapes_that_do_not_belong_together_are_refused():
    rows = np.zeros((2, 4), dtype=np.float32)
    with pytest.raises(InvalidInput, match="shape"):
        score(rows, np.zeros((2, 5), dtype=np.float32))
    with pytest.raises(InvalidInput, match="two columns"):
        score(rows[:, :1], None)
    with pytest.raises(InvalidInput, match="targets of shape"):
        score(rows, rows, [0])
    with pytest.raises(InvalidInput, match="outside the vocabulary"):
        score(rows, rows, [0, 4])


@pytest.mark.parametrize(
    ("tied", "probability", "expected"),
    [
        (True, 0.99, "tied"),
        (False, 0.49999, "uncertain"),
        (False, 0.5, "leaning"),
        (False, 0.89999, "leaning"),
        (False, 0.9, "confident"),
    ],
)
def test_class_boundaries(tied, probability, expected):
    assert flip_class(tied, probability) == expected
    both = flip_classes(np.array([True, False]), np.array([tied, False]), np.array([probability, probability]))
    assert both.tolist() == [expected, ""]
