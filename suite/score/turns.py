"""Sums per turn: all that a cluster bootstrap or a paired test needs of a ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import InvalidInput
from suite.score.classes import FLIP_CLASSES
from suite.score.interface import Columns
from suite.score.ledger import Ledger

MIN_TURNS = 10
"""Fewer turns give counts only: no interval, no test."""
NO_TURN = -1
"""Turn of a probe that belongs to none."""

Values = NDArray[np.float64]


def _class_of(name: str) -> Callable[[Columns], NDArray[Any]]:
    return lambda columns: columns["flip"] & (columns["flip_class"] == name)


QUANTITIES: dict[str, Callable[[Columns], NDArray[Any]]] = {
    "flips": lambda columns: columns["flip"],
    **{f"flips_{name}": _class_of(name) for name in FLIP_CLASSES},
    "kl_ref_cand": lambda columns: columns["kl_ref_cand"],
    "kl_cand_ref": lambda columns: columns["kl_cand_ref"],
    "jsd": lambda columns: columns["jsd"],
    "total_variation": lambda columns: columns["total_variation"],
    "nll_ref": lambda columns: columns["nll_ref"],
    "nll_cand": lambda columns: columns["nll_cand"],
}
"""What is summed per turn, from the columns of a ledger. Names that begin with `flips` are counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTotals:
    """Sums of one ledger over the probes of each turn."""

    turns: NDArray[np.int64]
    """[T], ascending."""
    n: Values
    """[T], probes of each turn, at least 1."""
    sums: dict[str, Values]
    """Name of a quantity -> its sum over each turn, [T]."""

    @property
    def num_turns(self) -> int:
        """T."""
        return len(self.turns)

    @property
    def known(self) -> bool:
        """Whether the probes have turns at all; a bare capture has none."""
        return bool((self.turns != NO_TURN).any())

    @property
    def refusal(self) -> str | None:
        """Why there can be neither interval nor test; None where both can be."""
        if not self.known:
            return "no turns are known, so there is nothing to resample: counts only"
        if self.num_turns < MIN_TURNS:
            few = "1 turn" if self.num_turns == 1 else f"{self.num_turns} turns"
            return f"{few}, fewer than {MIN_TURNS}: counts only"
        return None


def turn_totals(ledger: Ledger) -> TurnTotals:
    """Sum every quantity over the turns of a ledger.

    Raises:
        InvalidInput: no probes, or a row is not finite, so that its sums do not exist.
    """
    columns = ledger.columns
    if not ledger.num_rows:
        raise InvalidInput("the ledger has no probes")
    if not (columns["finite_ref"] & columns["finite_cand"]).all():
        raise InvalidInput("a row of the ledger is not finite; sums over its turn do not exist")
    turns, place = np.unique(columns["turn"], return_inverse=True)
    return totals_of(turns, place, {name: take(columns) for name, take in QUANTITIES.items()})


def totals_of(turns: NDArray[Any], place: NDArray[Any], values: dict[str, NDArray[Any]]) -> TurnTotals:
    """Sums of any values per probe.

    Args:
        turns: [T], ascending.
        place: [n], index into `turns` of each probe; every turn occurs.
        values: Name -> [n].
    """
    return TurnTotals(
        turns=turns.astype(np.int64),
        n=np.bincount(place, minlength=len(turns)).astype(np.float64),
        sums={
            name: np.bincount(place, weights=column.astype(np.float64), minlength=len(turns)).astype(np.float64)
            for name, column in values.items()
        },
    )
