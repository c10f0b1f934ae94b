"""How long 100,000 cluster-bootstrap replicates take: `python benchmarks/bootstrap.py [PROBES] [TURNS]`.

One mean over 10,000 probes, and all eleven quantities of a ledger from the same draws.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from suite.score.bootstrap import REPLICATES, cluster_bootstrap
from suite.score.turns import QUANTITIES, totals_of


def main() -> None:
    probes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    random = np.random.default_rng(0)
    place = np.sort(np.concatenate([np.arange(turns), random.integers(0, turns, probes - turns)]))
    values = {name: random.lognormal(-6, 1, probes) for name in QUANTITIES if not name.startswith("flips")}
    values |= {name: random.random(probes) < 0.02 for name in QUANTITIES if name.startswith("flips")}
    for names in (["kl_ref_cand"], list(QUANTITIES)):
        started = time.perf_counter()
        # The sums per turn are part of what is timed.
        totals = totals_of(np.arange(turns), place, {name: values[name] for name in names})
        found = cluster_bootstrap(totals, names)
        seconds = time.perf_counter() - started
        assert found is not None
        assert found.replicates == REPLICATES
        print(
            f"{len(names)} mean(s), {probes:,} probes in {turns} turns, {REPLICATES:,} replicates: {seconds:.2f} s "
            f"(limit for one mean: 2 s)"
        )


if __name__ == "__main__":
    main()
