import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.score.bootstrap import cluster_bootstrap, student_quantile
from suite.score.turns import TurnTotals, totals_of
from tests.examples import examples
from tests.score.clustered import divergences, flips


def totals(sums, n, name="kl_ref_cand"):
    return TurnTotals(
        turns=np.arange(len(n), dtype=np.int64),
        n=np.array(n, dtype=float),
        sums={name: np.array(sums, dtype=float)},
    )


@pytest.mark.parametrize(
    ("share", "degrees", "value"),
    # Tables of Student's t.
    [(0.975, 9, 2.2622), (0.975, 14, 2.1448), (0.975, 29, 2.0452), (0.975, 120, 1.9799), (0.95, 10, 1.8125)],
)
def test_student_quantiles_are_those_of_the_tables(share, degrees, value):
    assert student_quantile(share, degrees) == pytest.approx(value, abs=2e-4)


def test_under_ten_turns_there_is_no_interval():
    assert cluster_bootstrap(totals([1.0] * 9, [5] * 9), replicates=100) is None
    assert cluster_bootstrap(totals([1.0, 2.0] * 5, [5] * 10), replicates=100) is not None


def test_without_turns_there_is_nothing_to_resample():
    bare = totals_of(np.array([-1]), np.zeros(500, dtype=int), {"flips": np.ones(500)})
    assert not bare.known
    assert cluster_bootstrap(bare, replicates=100) is None


def test_no_interval_where_one_turn_holds_all_events():
    found = cluster_bootstrap(totals([7] + [0] * 19, [10] * 20, "flips"), replicates=200)
    assert found.intervals == {"flips": None}


def test_equal_turns_give_a_point():
    interval = cluster_bootstrap(totals([2.0] * 12, [4] * 12), replicates=200).intervals["kl_ref_cand"]
    assert (interval.low, interval.high) == pytest.approx((0.5, 0.5))


def test_the_mean_is_a_ratio_of_sums_and_not_a_mean_of_means():
    # Turns of 1 and of 99 probes with values 0 and 1: the mean per probe is near 0.99, that of turn means 0.5.
    n = [1, 99] * 20
    interval = cluster_bootstrap(totals([0, 99] * 20, n), replicates=2_000).intervals["kl_ref_cand"]
    assert interval.low > 0.9
    assert interval.low <= 0.99 <= interval.high


def test_clusters_widen_the_interval():
    """The same 400 values in turns that agree within themselves, and in turns that do not."""
    values = np.repeat([0.0, 1.0], 200)
    scattered = np.random.default_rng(0).permutation(values)
    place = np.repeat(np.arange(20), 20)
    widths = []
    for column in (values, scattered):
        found = cluster_bootstrap(totals_of(np.arange(20), place, {"flips": column}), replicates=4_000)
        widths.append(found.intervals["flips"].high - found.intervals["flips"].low)
    assert widths[0] > 3 * widths[1]


def test_the_seed_fixes_the_interval_and_the_method_names_it():
    example = flips(np.random.default_rng(1), turns=30, rate=0.05, correlation=0.05)
    first, again = (cluster_bootstrap(example, replicates=3_000) for _ in range(2))
    other = cluster_bootstrap(example, replicates=3_000, seed=2)
    assert first == again
    assert other.intervals != first.intervals
    assert "30 turns resampled 3,000 times" in first.method
    assert f"seed {first.seed}" in first.method


def test_quantities_share_draws_without_touching_each_other():
    random = np.random.default_rng(4)
    one = flips(random, turns=25, rate=0.05, correlation=0.05)
    both = TurnTotals(turns=one.turns, n=one.n, sums={"kl_ref_cand": random.random(25), **one.sums})
    alone = cluster_bootstrap(one, replicates=1_000).intervals["flips"]
    beside = cluster_bootstrap(both, replicates=1_000).intervals["flips"]
    assert (alone.low, alone.high) == pytest.approx((beside.low, beside.high), rel=1e-12)


def test_a_share_of_probes_stays_between_0_and_1():
    interval = cluster_bootstrap(totals([9, 10, 10, 8] * 4, [10] * 16, "flips"), replicates=2_000).intervals["flips"]
    assert 0 <= interval.low < interval.high <= 1


def test_very_many_turns_take_fewer_replicates():
    found = cluster_bootstrap(totals(np.arange(40_000.0), np.ones(40_000)), replicates=6_000)
    assert found.replicates == 2_000
    assert found.intervals["kl_ref_cand"].low < 19_999.5 < found.intervals["kl_ref_cand"].high


def test_a_turn_that_holds_nearly_everything_does_not_blow_up_the_interval():
    """Without that turn a replicate's spread is tiny against its shift."""
    for rest in (1e-1, 1e-3, 1e-6, 1e-9):
        interval = cluster_bootstrap(totals([50.0, rest] + [0.0] * 18, [100] * 20), replicates=2_000).intervals
        assert 0.5 / 20 < interval["kl_ref_cand"].high <= 0.5


SUMS = st.one_of(
    st.just(0.0),
    st.floats(0, 50),
    # Far apart, down to what squares to 0.
    st.builds(lambda mantissa, power: mantissa * 10.0**power, st.floats(1, 9.9), st.integers(-250, 0)),
)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(SUMS, st.integers(1, 200)), min_size=10, max_size=40), st.floats(1e-3, 1e3))
@example([(50.0, 168), (9.48083293e-05, 141)] + [(0.0, 100)] * 18, 263.45872283387416)
@example([(7.14e-6, 122), (6.9, 113)] + [(0.0, 80)] * 10, 847.5257927752527)
@example([(1e-200, 7), (2e-201, 9)] + [(0.0, 5)] * 10, 1.0)
def test_intervals_scale_with_the_values(pairs, factor):
    sums, n = np.array([s for s, _ in pairs]), [m for _, m in pairs]
    first = cluster_bootstrap(totals(sums, n), replicates=200).intervals["kl_ref_cand"]
    second = cluster_bootstrap(totals(sums * factor, n), replicates=200).intervals["kl_ref_cand"]
    assert (first is None) == (second is None)
    if first is not None:
        estimate = sums.sum() / sum(n)
        assert 0 <= first.low <= estimate * (1 + 1e-9)
        assert estimate * (1 - 1e-9) <= first.high <= (sums / n).max() * (1 + 1e-9)
        assert second.low == pytest.approx(first.low * factor, rel=1e-6, abs=1e-6 * estimate * factor)
        assert second.high == pytest.approx(first.high * factor, rel=1e-6)


COVERAGE = {
    "15 turns, 3 % flips, correlation 0.05": (lambda r: flips(r, turns=15, rate=0.03, correlation=0.05), 0.03),
    "15 turns, 5 % flips, correlation 0.1": (lambda r: flips(r, turns=15, rate=0.05, correlation=0.1), 0.05),
    "30 turns, 1 % flips, correlation 0.02": (
        lambda r: flips(r, turns=30, rate=0.01, correlation=0.02, mean_length=40),
        0.01,
    ),
    "60 turns, 2 % flips, correlation 0.05": (lambda r: flips(r, turns=60, rate=0.02, correlation=0.05), 0.02),
    "15 turns, heavy-tailed KL": (lambda r: divergences(r, turns=15, mean=0.01, between=0.4), 0.01),
    "60 turns, heavy-tailed KL": (lambda r: divergences(r, turns=60, mean=0.01, between=0.6), 0.01),
    "30 turns, a few of which carry most of the KL": (lambda r: divergences(r, turns=30, mean=0.01, between=1.0), 0.01),
}


def coverage(make, truth):
    """How many of 400 simulated sessions have an interval, and how many of those hold the true mean."""
    random = np.random.default_rng(1)
    held = made = 0
    for seed in range(400):
        example = make(random)
        interval = cluster_bootstrap(example, replicates=600, seed=seed).intervals[next(iter(example.sums))]
        if interval is not None:
            made += 1
            held += interval.low <= truth <= interval.high
    return made, held


@pytest.mark.parametrize("name", list(COVERAGE))
def test_intervals_cover_the_true_mean_of_clustered_data(name):
    """90 to 98 % of nominal 95 % intervals hold the mean that the simulated sessions were drawn with."""
    made, held = coverage(*COVERAGE[name])
    assert made > 350
    assert 0.90 <= held / made <= 0.98, f"{held} of {made}"


def test_a_divergence_held_by_few_turns_has_a_wider_interval_than_a_count():
    held = [40.0, 20.0] + [0.1] * 18
    found = [
        cluster_bootstrap(totals(held, [100] * 20, name), replicates=4_000).intervals[name] for name in ("jsd", "flips")
    ]
    assert found[0].low <= found[1].low
    assert found[0].high > found[1].high


def test_taking_tokens_as_independent_would_not_cover():
    """What the bootstrap is for: with probes resampled one by one, the same data is covered far too rarely."""
    random = np.random.default_rng(1)
    held = 0
    for _ in range(300):
        example = flips(random, turns=30, rate=0.05, correlation=0.1)
        n, count = example.n.sum(), example.sums["flips"].sum()
        share = count / n
        half = 1.96 * math.sqrt(share * (1 - share) / n)
        held += abs(share - 0.05) <= half
    assert held / 300 < 0.75
