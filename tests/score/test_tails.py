import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.score.tails import tail_quantiles

SHARES = st.floats(0, 1) | st.sampled_from((0.0, 0.001, 0.02, 0.5, 0.985, 1.0))


@given(
    n=st.integers(1, 5_000),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(("normal", "poisson", "pareto", "ascending", "equal")),
    shares=st.tuples(SHARES, SHARES),
)
def test_the_quantiles_are_those_of_numpy_to_the_bit(n, seed, kind, shares):
    random = np.random.default_rng(seed)
    values = {
        "normal": lambda: random.normal(size=n),
        "poisson": lambda: random.poisson(2, size=n).astype(float),
        "pareto": lambda: random.pareto(0.5, size=n),
        "ascending": lambda: np.arange(n, dtype=float),
        "equal": lambda: np.full(n, 0.1),
    }[kind]()
    assert tail_quantiles(values, shares) == tuple(np.quantile(values, shares).tolist())


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_sample_that_misleads_costs_time_only(order):
    # Every 64th value is far below all others, then far above.
    values = np.ones(6_400)
    values[::64] = -1e9
    values = np.random.default_rng(0).normal(size=6_400) + values[order]
    for share in (0.004, 0.0155, 0.03, 0.97, 0.99):
        assert tail_quantiles(values, [share]) == (float(np.quantile(values, share)),)
        assert tail_quantiles(-values, [share]) == (float(np.quantile(-values, share)),)
