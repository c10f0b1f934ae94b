"""Which flips of a ledger are followed: those inside the assistant's own output, by class and up to a limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.branch.schema import ForkPolicy
from suite.manifest.schema import Branches
from suite.score.classes import FLIP_CLASSES, FlipClass
from suite.score.ledger import Ledger

OUTPUT_KINDS = ("assistant_output", "reasoning", "tool_call")
"""Innermost span kinds of tokens that the assistant writes; a marked literal may stand elsewhere too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassSelection:
    """The flips of one class."""

    flip_class: FlipClass
    flips: int
    outside_output: int
    left_out: int
    rows: tuple[int, ...]
    """Rows of the ledger that are followed, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """All flips of a ledger."""

    by_class: tuple[ClassSelection, ...]
    """In the order of the classes."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of the ledger that are followed, in order."""
        return tuple(sorted(row for item in self.by_class for row in item.rows))


def fork_policy(branches: Branches) -> ForkPolicy:
    """The policy of a lock, with its defaults written out."""
    return ForkPolicy(
        classes=FLIP_CLASSES if branches.classes is None else branches.classes,
        max_per_class=branches.max_per_class,
        max_new_tokens=branches.max_new_tokens,
    )


def choose_forks(ledger: Ledger, policy: ForkPolicy) -> Selection:
    """Choose the flips to follow. Where a class has more than the limit, those chosen are spread evenly."""
    columns = ledger.columns
    output = in_output(ledger)
    chosen = []
    for name in FLIP_CLASSES:
        flips = columns["flip"] & (columns["flip_class"] == name)
        rows = np.flatnonzero(flips & output).tolist()
        limit = len(rows) if policy.max_per_class is None else min(policy.max_per_class, len(rows))
        if name not in policy.classes:
            limit = 0
        followed = tuple(rows[place * len(rows) // limit] for place in range(limit))
        chosen.append(
            ClassSelection(
                flip_class=name,
                flips=int(flips.sum()),
                outside_output=int((flips & ~output).sum()),
                left_out=len(rows) - limit,
                rows=followed,
            )
        )
    return Selection(by_class=tuple(chosen))


def in_output(ledger: Ledger) -> NDArray[np.bool_]:
    """[n], whether a probe predicts a token that the assistant writes.

    A literal counts where its turn holds a probe of one of `OUTPUT_KINDS`, which only turns of the assistant do.
    """
    kinds, turns = ledger.columns["span_kind"], ledger.columns["turn"]
    plain = np.isin(kinds, OUTPUT_KINDS)
    result: NDArray[np.bool_] = plain | ((kinds == "literal") & np.isin(turns, np.unique(turns[plain])))
    return result
