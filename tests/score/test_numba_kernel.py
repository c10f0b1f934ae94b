import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.score.interface import KERNEL_COLUMNS
from suite.score.numba_kernel import NumbaKernel, default_kernel
from suite.score.numpy_kernel import NumpyKernel
from tests.capture.synthetic import bf16

STORED = {"bfloat16": bf16, "float16": np.float16, "float32": np.float32}
FIELDS = [name for name, kind in KERNEL_COLUMNS.items() if kind is np.float64]


def assert_agree(found, expected):
    assert found.keys() == expected.keys()
    for name, want in expected.items():
        assert found[name].dtype == want.dtype, name
        if want.dtype == np.float64:
            np.testing.assert_allclose(found[name], want, rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], want, err_msg=name)


def score(reference, candidate, targets, threads=1):
    found = NumbaKernel(threads=threads).score_block(reference, candidate, targets)
    assert_agree(found, NumpyKernel().score_block(reference, candidate, targets))
    return found


@st.composite
def pairs(draw):
    """Rows of few or many entries in any two dtypes: spread out, on a coarse grid, far apart, or equal."""
    count, width = draw(st.integers(1, 9)), draw(st.sampled_from([2, 3, 7, 64, 511, 513, 1025, 2500]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 1e-3, 1.0, 6.0, 1e4]))
    first = random.normal(draw(st.sampled_from([0.0, 15.0, -40.0])), scale, (count, width))
    second = first + random.normal(0, draw(st.sampled_from([0.0, 1e-2, 1.0, 1e4])), first.shape)
    if draw(st.booleans()):
        first, second = first.round(), second.round()
    kinds = draw(st.sampled_from(list(STORED))), draw(st.sampled_from(list(STORED)))
    sides = [STORED[kind](side.clip(-6e4, 6e4)) for kind, side in zip(kinds, (first, second), strict=True)]
    return *sides, random.integers(0, width, count)


@given(pairs())
def test_every_column_is_that_of_the_plain_kernel(drawn):
    score(*drawn)


def test_a_best_id_anywhere_and_its_second_anywhere():
    # Blocks of 1,024 are searched one after the other: both in one, in neighbours, in the last, on their edges.
    places = [(0, 1), (1, 0), (1023, 1024), (1024, 1023), (2999, 0), (5, 2999), (2048, 2049)]
    rows = np.zeros((2 * len(places), 3000))
    for i, (best, second) in enumerate(places):
        rows[2 * i, [best, second]] = 9, 8
        rows[2 * i + 1, [best, second]] = 9, 9
    found = score(bf16(rows), bf16(rows[::-1]), np.zeros(len(rows), dtype=np.int64))
    assert found["ref_top1"].tolist() == [i for best, second in places for i in (best, min(best, second))]
    assert found["ref_margin_nats"].tolist() == [1, 0] * len(places)


def test_zeros_of_both_signs_tie():
    rows = np.array([[-0.0, 0.0, -1.0], [-1.0, -0.0, 0.0]])
    for stored in STORED.values():
        found = score(stored(rows), stored(rows[::-1]), np.zeros(2, dtype=np.int64))
        assert found["ref_top1"].tolist() == [0, 1]
        assert found["tied"].tolist() == [True, True]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", list(STORED))
def test_a_row_that_is_not_finite_spoils_its_pair_alone(bad, kind):
    random = np.random.default_rng(0)
    first, second = (STORED[kind](random.normal(0, 3, (4, 1500))) for _ in range(2))
    first[0, 1499] = STORED[kind](np.array([[bad]]))[0, 0]
    second[2, 0] = STORED[kind](np.array([[bad]]))[0, 0]
    found = score(first, second, np.zeros(4, dtype=np.int64))
    assert found["finite_ref"].tolist() == [False, True, True, True]
    assert np.isnan(found["kl_ref_cand"]).tolist() == [True, False, True, False]


def test_equal_rows_differ_by_exactly_nothing():
    rows = bf16(np.random.default_rng(1).normal(10, 4, (3, 5000)))
    targets = np.array([0, 1, 2])
    alone = score(rows, None, targets)
    assert_agree(alone, NumbaKernel(threads=1).score_block(rows, rows.copy(), targets))
    for name in ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation"):
        assert (alone[name] == 0).all()


def test_scores_do_not_depend_on_threads_neighbours_or_the_run():
    random = np.random.default_rng(2)
    first, second = (bf16(random.normal(10, 4, (23, 5000))) for _ in range(2))
    targets = random.integers(0, 5000, 23)
    found = score(first, second, targets)
    for threads in (1, 2, 5):
        again = NumbaKernel(threads=threads).score_block(first, second, targets)
        assert all(again[name].tobytes() == found[name].tobytes() for name in found)
    alone = NumbaKernel().score_block(first[7:8], second[7:8], targets[7:8])
    assert all(alone[name][0].tobytes() == found[name][7].tobytes() for name in found)


def test_rows_may_be_read_only_or_strided():
    random = np.random.default_rng(3)
    first, second = (bf16(random.normal(10, 4, (6, 3000))) for _ in range(2))
    first.flags.writeable = False
    score(first[::2, ::3], second[::2, ::3], np.zeros(3, dtype=np.int64))
    assert second.flags.writeable


def test_exponential_and_logarithm_against_higher_precision():
    from suite.score import numba_loops

    x = np.concatenate([-np.geomspace(1e-18, 699, 3000), [0.0, 1e-300]])
    found = np.array([numba_loops.exp(v) for v in x])
    exact = np.exp(x.astype(np.longdouble))
    assert float(np.abs(found / exact - 1).max()) < 8e-16
    assert numba_loops.exp(-1e30) == numba_loops.exp(-701.0) < 1e-300
    t = np.linspace(0, 1, 3001)
    found = np.array([numba_loops.log1p(v) for v in t])
    assert float(np.abs(found - np.log1p(t.astype(np.longdouble))).max()) < 1.1e-13


def test_without_numba_numpy_scores_and_the_user_is_told(monkeypatch):
    class Noting:
        notes: list[str]

        def __init__(self):
            self.notes = []

        def note(self, message):
            self.notes.append(message)

    observer = Noting()
    assert default_kernel(observer).name == "numba"
    assert not observer.notes
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert default_kernel(observer).name == "numpy"
    assert "suite[fast]" in observer.notes[0]
