import numpy as np
import pytest

from suite.score.intervals import intervals_of
from suite.score.together import intervals_together
from suite.score.turns import TurnTotals

NAMES = ("flips", "flips_confident", "kl_ref_cand")


def totals(seed, turns=20, n=None):
    random = np.random.default_rng(seed)
    n = random.integers(3, 30, turns) if n is None else n
    flips = random.binomial(n, 0.2)
    sums = {
        "flips": flips,
        "flips_confident": random.binomial(flips, 0.02),
        "kl_ref_cand": random.lognormal(-5, 1.5, turns) * n,
        "jsd": random.random(turns),
    }
    return TurnTotals(
        turns=np.arange(turns), n=n.astype(float), sums={name: v.astype(float) for name, v in sums.items()}
    )


def test_each_has_the_interval_that_it_has_alone():
    n = np.random.default_rng(7).integers(3, 30, 20)
    # More than one batch of a session, another session between them, and one of too few turns.
    ledgers = [totals(seed, n=n) for seed in range(26)]
    ledgers[3:3] = [totals(90, turns=33), totals(91, turns=9)]
    together = intervals_together(ledgers, NAMES)
    for ledger, found in zip(ledgers, together, strict=True):
        alone = intervals_of(ledger)
        assert (found.n, found.refusal, found.told) == (alone.n, alone.refusal, alone.told)
        for name in NAMES:
            mine, theirs = found.mean(name), alone.mean(name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)
        assert found.mean("jsd") is None
    assert any(found.mean("flips_confident") is None for found in together)
    assert together[4].bootstrap is None
    assert together[0].mean("flips") is not None


def test_no_ledgers_no_intervals():
    assert intervals_together([], NAMES) == ()
