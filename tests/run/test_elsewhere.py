from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.capture.rows import RowBlock, to_float32
from suite.errors import VerificationFailed
from suite.run.elsewhere import Fingerprint, fingerprint_of, settle
from tests.capture.synthetic import bf16
from tests.reference.world import facts_of, hidden_capture, reference_lock

WIDTH = 300


def captured(seed=0, count=4):
    """Rows as captured, with their facts."""
    values = np.random.default_rng(seed).normal(0, 4, (count, WIDTH))
    rows = bf16(values)
    facts = facts_of(rows)
    block = RowBlock(
        positions=np.arange(count, dtype=np.int64) * 4 + 3,
        target_ids=np.zeros(count, dtype=np.int64),
        row_sha256=facts.pop("row_sha256"),
        rows=rows,
    )
    return block, Fingerprint(**facts)


def nudged(rows, seed=1, share=0.3):
    """Some logits one step up or down in BF16, as another kernel might round them."""
    random = np.random.default_rng(seed)
    steps = random.choice([-1, 1], rows.shape) * (random.random(rows.shape) < share)
    return (rows.astype(np.int32) + steps).astype(np.uint16)


def test_equal_rows_are_left_as_they_are():
    block, facts = captured()
    settled = settle(block, facts, 0, where="capture")
    assert settled is block
    assert settled.replayed is None


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.01, 1))
def test_the_best_ids_and_logits_are_the_captured_ones(seed, share):
    block, facts = captured(seed)
    other = replace(block, rows=nudged(block.rows, seed, share))
    settled = settle(other, facts, 0, where="capture")
    assert settled.replayed is not None
    assert settled.replayed.tolist() == (other.rows != block.rows).any(axis=1).tolist()
    values, before = to_float32(settled.rows), to_float32(block.rows)
    assert np.array_equal(np.argmax(values, axis=1), np.argmax(before, axis=1))
    assert np.array_equal(np.sort(values, axis=1)[:, -64:], np.sort(before, axis=1)[:, -64:])
    for row, ids in enumerate(facts.top_ids):
        assert np.array_equal(values[row, ids], before[row, ids])
    # The tail is the replayed one, wherever it does not lie above the captured best.
    tail = np.ones(WIDTH, dtype=bool)
    tail[facts.top_ids[0]] = False
    assert (values[0, tail] <= values[0, facts.top_ids[0, -1]]).all()


def test_rows_are_found_by_their_place_in_the_capture():
    block, facts = captured()
    other = replace(block, rows=nudged(block.rows))
    whole = settle(other, facts, 0, where="capture")
    part = settle(other.cut(2, 4), facts, 2, where="capture")
    assert np.array_equal(whole.rows[2:], part.rows)


def test_marks_are_cut_with_their_block():
    block, facts = captured()
    rows = block.rows.copy()
    rows[3] = nudged(rows[3:])[0]
    settled = settle(replace(block, rows=rows), facts, 0, where="capture")
    assert [settled.cut(a, b).replayed.tolist() for a, b in ((0, 3), (3, 4))] == [[False] * 3, [True]]


def spoilt(block, facts, what):
    if what == "another head":
        return replace(block, rows=block.rows[:, ::-1].copy()), facts
    if what == "not finite":
        rows = block.rows.copy()
        rows[0, 0] = 0x7FC0
        return replace(block, rows=rows), facts
    if what == "logsumexp":
        return replace(block, rows=nudged(block.rows)), replace(facts, logsumexp=facts.logsumexp + 0.5)
    if what == "not a number":
        return replace(block, rows=nudged(block.rows)), replace(facts, logsumexp=facts.logsumexp * np.nan)
    if what == "order":
        order = facts.top_ids[:, ::-1], facts.top_logits[:, ::-1]
        return replace(block, rows=nudged(block.rows)), replace(facts, top_ids=order[0], top_logits=order[1])
    ids = facts.top_ids.copy()
    ids[:, 1] = ids[:, 0]
    return replace(block, rows=nudged(block.rows)), replace(facts, top_ids=ids)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("another head", "a best logit is [0-9.]+ ULP away"),
        ("not finite", "it is not finite"),
        ("logsumexp", "its logsumexp is"),
        ("not a number", "its logsumexp is"),
        ("order", "best logits are not in order"),
        ("twice", "best logits are not in order"),
    ],
)
def test_rows_that_are_not_near_are_refused_by_position(what, told):
    block, facts = spoilt(*captured(), what)
    with pytest.raises(VerificationFailed, match=rf"capture: position 3: .*{told}"):
        settle(block, facts, 0, where="capture")


def test_facts_of_a_capture_run_over_its_chunks(tmp_path):
    stored = hidden_capture(tmp_path, reference_lock(tmp_path))
    facts = fingerprint_of(stored.capture)
    assert facts.top_ids.shape == (29, 64)
    assert facts.top_logits.dtype == np.uint16
    assert len(stored.capture.index.chunks) == 3


def test_rows_whose_best_id_is_the_captured_one_and_not_the_replays_are_told():
    block, facts = captured()
    rows = block.rows.copy()
    first, second = facts.top_ids[2][:2]
    rows[2, second] = rows[2, first]
    rows[2, first] -= 1
    captured_rows = block.rows.copy()
    captured_rows[2, second] = captured_rows[2, first] - 1
    again = facts_of(captured_rows)
    block = replace(block, rows=rows, row_sha256=again.pop("row_sha256"))
    settled = settle(block, Fingerprint(**again), 0, where="capture")
    assert settled.overruled.tolist() == [False, False, True, False]
    assert settled.replayed.tolist() == [False, False, True, False]
    assert settled.cut(2, 3).overruled.tolist() == [True]
