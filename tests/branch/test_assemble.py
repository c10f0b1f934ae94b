"""From what two engines wrote to forks and counts: used, not used, without a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.branch.assemble import Side, assemble
from suite.branch.candidates import TOP_TOKENS, top_tokens
from suite.branch.counts import count_branches
from suite.branch.schema import Fork, ForkPolicy, TopToken
from suite.errors import VerificationFailed
from suite.score.classes import FLIP_CLASSES
from suite.score.ledger import Ledger
from tests.branch.test_judge import ID, OUTPUT, START, judge
from tests.bundle.world import World
from tests.score.session import logits

POSITION = START + 3
RIGHT, WRONG = ID["10.0.0.5"], ID["10.0.0.50"]
POLICY = ForkPolicy(classes=FLIP_CLASSES, max_per_class=None, max_new_tokens=1024)
TOP = (TopToken(id=1, text="x", p=0.5),)


def ledger() -> Ledger:
    columns: dict[str, Any] = {
        "position": np.array([POSITION, POSITION + 40]),
        "flip": np.array([True, True]),
        "flip_class": np.array(["leaning", "tied"]),
        "turn": np.array([1, 2]),
        "span_kind": np.array(["tool_call", "tool_result"]),
        "target_id": np.array([RIGHT, 0]),
    }
    return Ledger(facts=None, columns=columns)  # type: ignore[arg-type]


def side(winner: int, *, wrote: int | None = None, given: int | None = None) -> Side:
    """One stack's result: its root, and what it continued with the rest of the recorded call."""
    rest = [ID[text] for text in OUTPUT[5:8]]

    def continued(token: int, is_given: bool) -> dict[str, Any]:
        return {
            "position": POSITION,
            "given": is_given,
            "token_ids": [token, *rest],
            "finish": "envelope",
            "batch": 0,
            "order": int(is_given),
            "cached_tokens": 4,
        }

    agrees = wrote in (None, winner)
    root = {"position": POSITION, "winner": winner, "token": winner if agrees else wrote, "batch": 1, "order": 2}
    futures = [continued(winner, False)] if agrees else []
    futures += [] if given is None else [continued(given, True)]
    return Side.of({"roots": [root | {"cached_tokens": 4}], "futures": futures})


def forks(candidate: Side, reference: Side | None) -> tuple[Fork, ...]:
    marked = judge(must_survive=["10.0.0.5"])
    tops = {"reference": [TOP], "candidate": [TOP]}
    return assemble(ledger(), [0], judge=marked, candidate=candidate, reference=reference, top_tokens=tops)


def test_a_fork_has_three_futures_and_two_consequences() -> None:
    (fork,) = forks(side(WRONG), side(RIGHT, given=WRONG))
    assert [future.role for future in fork.futures] == ["reference", "reference_candidate_token", "candidate"]
    assert fork.consequence is not None
    assert fork.token_consequence is not None
    assert (fork.consequence.name, fork.consequence.in_reference) == ("wrong literal", False)
    assert fork.consequence.detail == "10.0.0.50 stands for 10.0.0.5"
    assert fork.token_consequence.name == "wrong literal"
    counts = count_branches(ledger(), POLICY, [fork]).by_class
    assert counts[2].consequences["wrong literal"] == counts[2].token_consequences["wrong literal"] == 1
    assert (counts[0].flips, counts[0].outside_output) == (1, 1)


@pytest.mark.parametrize(
    ("candidate", "reference", "counted"),
    [
        (side(WRONG, wrote=RIGHT), side(RIGHT, given=WRONG), "candidate_mismatches"),
        (side(WRONG), side(RIGHT, wrote=WRONG), "reference_mismatches"),
        (side(WRONG, wrote=RIGHT), side(RIGHT, wrote=WRONG), "both_mismatch"),
    ],
)
def test_a_first_token_that_is_not_the_captured_one_is_counted_and_not_used(
    candidate: Side, reference: Side, counted: str
) -> None:
    (fork,) = forks(candidate, reference)
    assert not fork.used
    assert (fork.consequence, fork.token_consequence) == (None, None)
    counts = count_branches(ledger(), POLICY, [fork]).by_class[2]
    assert (getattr(counts, counted), counts.used) == (1, 0)


def test_without_a_reference_the_candidates_faults_are_told() -> None:
    (fork,) = forks(side(WRONG), None)
    assert [future.role for future in fork.futures] == ["candidate"]
    assert fork.consequence is not None
    assert fork.consequence.name == "wrong literal"
    assert fork.token_consequence is None


def test_forks_that_the_policy_does_not_choose_are_refused() -> None:
    none = ForkPolicy(classes=("tied",), max_per_class=None, max_new_tokens=8)
    with pytest.raises(VerificationFailed, match="policy chooses"):
        count_branches(ledger(), none, forks(side(WRONG), None))


def test_best_tokens_have_the_probabilities_of_the_captured_row(tmp_path: Any) -> None:
    parts = World(root=tmp_path).parts()
    rows = [2, 7]
    found = top_tokens(parts.reference, rows, str)
    for row, top in zip(rows, found, strict=True):
        values = np.asarray(logits()[row], dtype=np.float32)
        bits = values.view(np.uint32)
        # Rounded to BF16, to nearest even, as the capture stores it.
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)
        expected = np.exp(rounded - rounded.max())
        expected /= expected.sum()
        assert len(top) == min(TOP_TOKENS, len(values))
        assert [token.id for token in top] == sorted(range(len(values)), key=lambda i: (-rounded[i], i))
        assert [token.p for token in top] == pytest.approx([expected[token.id] for token in top])
