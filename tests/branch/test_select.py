"""Which flips are followed: only where the assistant writes, by class, spread evenly."""

from __future__ import annotations

import numpy as np
import pytest

from suite.branch.schema import ForkPolicy
from suite.branch.select import choose_forks, fork_policy
from suite.manifest.schema import Branches
from suite.score.classes import FLIP_CLASSES
from suite.score.ledger import Ledger


def ledger(rows: list[tuple[str, str, int]]) -> Ledger:
    """Only what choosing reads: flip class (empty: no flip), span kind, turn."""
    classes, kinds, turns = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"flip": classes != "", "flip_class": classes, "span_kind": kinds, "turn": turns}
    return Ledger(facts=None, columns=columns)  # type: ignore[arg-type]


def policy(**values: object) -> ForkPolicy:
    return fork_policy(Branches(policy="flips", **values))  # type: ignore[arg-type]


def test_only_the_assistants_own_output_is_followed() -> None:
    found = choose_forks(
        ledger(
            [
                ("tied", "tool_call", 1),
                ("tied", "tool_result", 2),
                ("tied", "scaffold", 1),
                ("", "tool_call", 1),
                ("leaning", "reasoning", 1),
                ("leaning", "user", 0),
            ]
        ),
        policy(),
    )
    assert found.rows == (0, 4)
    counts = {item.flip_class: (item.flips, item.outside_output, item.left_out) for item in found.by_class}
    assert counts == {"tied": (3, 2, 0), "uncertain": (0, 0, 0), "leaning": (2, 1, 0), "confident": (0, 0, 0)}


def test_a_literal_counts_in_a_turn_of_the_assistant_only() -> None:
    rows = [("tied", "literal", 1), ("", "tool_call", 1), ("tied", "literal", 2), ("", "tool_result", 2)]
    assert choose_forks(ledger(rows), policy()).rows == (0,)


@pytest.mark.parametrize(("limit", "rows"), [(1, (0,)), (3, (0, 3, 6)), (9, tuple(range(9))), (20, tuple(range(9)))])
def test_a_limit_spreads_over_the_session(limit: int, rows: tuple[int, ...]) -> None:
    found = choose_forks(ledger([("uncertain", "tool_call", 1)] * 9), policy(max_per_class=limit))
    assert found.rows == rows
    assert found.by_class[1].left_out == 9 - len(rows)


def test_classes_that_are_not_chosen_are_left_out() -> None:
    rows = [(name, "tool_call", 1) for name in FLIP_CLASSES]
    found = choose_forks(ledger(rows), policy(classes=("confident", "leaning")))
    assert found.rows == (2, 3)
    assert [item.left_out for item in found.by_class] == [1, 1, 0, 0]


def test_two_ways_to_write_a_policy_are_one() -> None:
    assert Branches(classes=("leaning", "tied")) == Branches(classes=("tied", "leaning"))
