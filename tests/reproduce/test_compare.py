"""The verdict: identical, within both floors, or different, with every number; a forger's edits never pass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.errors import VerificationFailed
from suite.reproduce.compare import compare, floor_at
from suite.score.floor import Repeats
from suite.score.ledger import read_ledger
from tests.bundle.test_verify import forge_ledger
from tests.bundle.world import World
from tests.score.session import logits


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Write a bundle whose candidate's starts are given by their rows."""

    def write(*starts, reference=None, **options):
        world = World(root=tmp_path_factory.mktemp("world"))
        values = [default() if rows is None else rows for rows in starts]
        parts = world.parts(candidate=values[0], repeats=1, **options)
        from dataclasses import replace

        from suite.capture.rows import open_rows
        from suite.score.floor import repeat_floor
        from suite.score.labels import Labels
        from suite.score.scorer import write_scores
        from tests.score.session import rendered

        captures = [world.capture(parts.lock, rows, start=k, **options) for k, rows in enumerate(values)]
        if reference is not None:
            other = world.capture(parts.reference_lock, reference, **options)
            write_scores(parts.ledger, open_rows(other), open_rows(captures[0]), labels=Labels.of(rendered()))
            parts = replace(parts, reference=other)
        return write_bundle(
            replace(parts, candidate=captures[0], repeats=repeat_floor(captures)), results=world.results
        )

    return write


def default():
    values = logits()
    values[2, 5] = 20
    values[7] = np.roll(values[7], 1)
    return values


def nudged(*rows, flip=(), by=1e-2):
    """The candidate's rows with some of them changed a little, and others' best token changed."""
    values = default()
    for row in rows:
        values[row, 3] += by
    for row in flip:
        values[row] = np.roll(values[row], 1)
    return values


def against(claimed, found):
    theirs, ours = open_bundle(claimed), open_bundle(found)
    return compare(
        read_ledger(theirs.folder / "ledger.parquet"),
        read_ledger(ours.folder / "ledger.parquet"),
        declared=repeats(theirs),
        own=repeats(ours),
    )


def repeats(bundle):
    return Repeats.model_validate_json(bundle.read("repeats.json"))


def test_the_same_rows_are_identical(make):
    found = against(make(None, None, None), make(None))
    assert found.verdict == "identical"
    assert (found.identical, found.candidate.flips, found.reference.flips) == (11, 0, 0)
    assert found.flips_claimed == found.flips_found == 2
    assert found.mean_kl_claimed == found.mean_kl_found


def test_rows_that_repeats_of_the_stack_do_not_change_differ(make):
    found = against(make(None, None, None), make(nudged(1), nudged(1)))
    assert (found.verdict, found.candidate.identical_rows, found.candidate.flips) == ("differs", 10, 0)
    assert "1 rows and 0 best tokens of the candidate differ" in found.why


def test_as_much_as_repeats_differ_there_and_here_is_within_the_floor(make):
    declared = make(None, nudged(1), nudged(4))
    found = against(declared, make(nudged(5), None, nudged(5, 1)))
    assert found.verdict == "within floor"
    assert (found.declared_floor.differing_rows, found.own_floor.differing_rows) == (1, 1)
    assert found.identical == 10


def test_a_declared_floor_is_believed_only_as_far_as_it_is_found_here(make):
    boastful = make(None, nudged(*range(11), by=1))
    found = against(boastful, make(nudged(5), nudged(5)))
    assert found.declared_floor.differing_rows == 11
    assert (found.verdict, found.own_floor.differing_rows) == ("differs", 0)
    assert "the one measured here" in found.why


@pytest.mark.parametrize("starts", [([None], [nudged(5), None]), ([None, nudged(1)], [nudged(5)])])
def test_a_floor_of_one_start_is_none(make, starts):
    claimed, own = starts
    found = against(make(*claimed), make(*own))
    assert (found.verdict, "one start alone" in found.why) == ("differs", True)


def test_a_best_token_beyond_the_floor_differs(make):
    declared = make(None, nudged(1, 4, 5))
    found = against(declared, make(nudged(flip=[4]), nudged(1, 5, flip=[4])))
    assert (found.candidate.flips, found.verdict) == (1, "differs")
    assert "1 best tokens of the candidate" in found.why


def test_the_reference_is_compared_too(make):
    other = logits()
    other[3, 1] += 0.5
    found = against(make(None, None), make(None, None, reference=other))
    assert (found.reference.identical_rows, found.candidate.identical_rows) == (10, 11)
    assert found.verdict == "differs"
    assert "of the reference" in found.why


@given(rows=st.sets(st.integers(0, 10), min_size=1), data=st.data())
def test_one_altered_number_beside_untouched_rows_is_found_wherever_it_stands(make_once, rows, data):
    claimed, found = make_once
    name = data.draw(st.sampled_from(["kl_ref_cand", "nll_cand", "entropy_ref", "ref_margin_ulps", "jsd", "turn"]))
    ledger = read_ledger(claimed / "ledger.parquet")
    column = ledger.columns[name].copy()
    column[sorted(rows)] += 1
    ledger.columns[name] = column
    result = compare(
        ledger,
        read_ledger(found / "ledger.parquet"),
        declared=repeats(open_bundle(claimed)),
        own=repeats(open_bundle(found)),
    )
    assert (result.verdict, result.contradicted) == ("differs", len(rows))
    assert result.first_contradiction.startswith(f"position {min(rows)}: {name} is ")
    assert result.identical == 11 - len(rows)


@pytest.fixture(scope="module")
def make_once(make):
    return make(None, None, None), make(None)


def test_a_forger_who_hides_a_flip_and_makes_all_hashes_right_is_found(make):
    claimed, found = make(None, None, None), make(None)
    ledger = read_ledger(claimed / "ledger.parquet").columns
    row = int(np.flatnonzero(ledger["flip"])[0])
    forge_ledger(
        claimed,
        cand_top1={row: int(ledger["ref_top1"][row])},
        flip={row: False},
        tied={row: False},
        flip_class={row: ""},
        rank_ref_top1_in_cand={row: 1},
        ref_p_cand_top1={row: float(ledger["ref_p_ref_top1"][row])},
        cand_p_ref_top1={row: float(ledger["cand_p_cand_top1"][row])},
        nll_cand={row: -float(np.log(ledger["cand_p_cand_top1"][row]))},
    )
    assert verify_bundle(claimed).failure is None
    result = against(claimed, found)
    assert (result.verdict, result.contradicted, result.candidate.flips) == ("differs", 1, 1)
    assert (result.flips_claimed, result.flips_found) == (1, 2)


def test_a_forger_who_also_invents_rows_is_found(make):
    claimed, found = make(None, None, None), make(None, None)
    ledger = read_ledger(claimed / "ledger.parquet")
    columns = ledger.columns
    columns["kl_ref_cand"] = columns["kl_ref_cand"] / 10
    columns["cand_row_sha256"] = np.random.default_rng(0).integers(
        0, 256, columns["cand_row_sha256"].shape, dtype=np.uint8
    )
    boastful = make(None, nudged(*range(11), by=1))
    result = compare(
        ledger,
        read_ledger(found / "ledger.parquet"),
        declared=repeats(open_bundle(boastful)),
        own=repeats(open_bundle(boastful)),  # even if this stack's own starts differed in every row
    )
    assert (result.verdict, "the mean KL is" in result.why) == ("differs", True)


def test_a_strangers_text_does_not_reach_the_terminal_as_it_is(make_once):
    claimed, found = make_once
    ledger = read_ledger(claimed / "ledger.parquet")
    ledger.columns["span_kind"] = np.array(["\x1b[2J\u202e"] * ledger.num_rows)
    floors = {"declared": repeats(open_bundle(claimed)), "own": repeats(open_bundle(found))}
    result = compare(ledger, read_ledger(found / "ledger.parquet"), **floors)
    assert result.first_contradiction.startswith(r"position 0: span_kind is \x1b[2J\u202e, the run gives ")


def test_a_ledger_of_other_tokens_or_positions_cannot_be_compared(make, make_once):
    claimed, found = make_once
    floors = {"declared": repeats(open_bundle(claimed)), "own": repeats(open_bundle(found))}
    whole = read_ledger(found / "ledger.parquet")
    part = read_ledger(claimed / "ledger.parquet")
    part.columns.update({name: values[:5] for name, values in part.columns.items()})
    with pytest.raises(VerificationFailed, match="lacks positions"):
        compare(part, whole, **floors)
    # The other way about is what a draw is.
    assert compare(whole, part, **floors).n == 5


def test_of_a_floor_only_what_lies_at_the_compared_positions_counts(make):
    record = repeats(open_bundle(make(None, nudged(1, 6, flip=[4, 9]))))
    everywhere = floor_at(record, np.arange(11))
    assert (everywhere.starts, everywhere.flips, everywhere.differing_rows) == (2, 2, 4)
    some = floor_at(record, np.array([3, 4]))
    assert (some.flips, some.differing_rows) == (1, 1)
