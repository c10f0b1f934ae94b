"""Simulated sessions whose flips and divergences come in clusters of known strength."""

import numpy as np

from suite.score.turns import TurnTotals, totals_of


def lengths(random, turns: int, mean: float) -> np.ndarray:
    """Probes of each turn, log-normal: most turns short, a few several times longer."""
    spread = 0.8
    return np.maximum(1, np.round(random.lognormal(np.log(mean) - spread**2 / 2, spread, turns))).astype(int)


def flips(random, *, turns: int, rate: float, correlation: float, mean_length: float = 20) -> TurnTotals:
    """Rare flips: each turn has its own rate, beta-distributed with the given intra-cluster correlation."""
    n = lengths(random, turns, mean_length)
    strength = 1 / correlation - 1
    rates = random.beta(rate * strength, (1 - rate) * strength, turns)
    return _totals(n, random.binomial(n, rates).astype(float), "flips")


def divergences(random, *, turns: int, mean: float, between: float, within: float = 1.5) -> TurnTotals:
    """Heavy-tailed divergences: log-normal within turns around a log-normal level of each turn."""
    n = lengths(random, turns, 20)
    level = mean * random.lognormal(-(between**2) / 2, between, turns)
    sums = [
        (base * random.lognormal(-(within**2) / 2, within, size)).sum() for base, size in zip(level, n, strict=True)
    ]
    return _totals(n, np.array(sums), "kl_ref_cand")


def _totals(n, sums, name):
    place = np.repeat(np.arange(len(n)), n)
    empty = totals_of(np.arange(len(n)), place, {})
    return TurnTotals(turns=empty.turns, n=empty.n, sums={name: sums})
