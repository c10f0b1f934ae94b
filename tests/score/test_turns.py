import numpy as np
import pytest

from suite.errors import InvalidInput
from suite.score.intervals import ledger_intervals
from suite.score.labels import Labels
from suite.score.ledger import read_ledger
from suite.score.same_probes import differing, told_differences
from suite.score.scorer import write_scores
from suite.score.turns import QUANTITIES, turn_totals
from tests.compare.world import CompareWorld, one_per_turn, session
from tests.score.session import logits, rendered, source


def ledger_of(tmp_path, name, candidate, *, reference=None, **options):
    path = tmp_path / f"{name}.parquet"
    write_scores(
        path,
        source(tmp_path / f"{name}-r", logits() if reference is None else reference, **options),
        source(tmp_path / f"{name}-c", candidate, **options),
        labels=Labels.of(rendered()),
    )
    return read_ledger(path)


def changed():
    values = logits()
    values[2, 5] = 20
    values[7] = np.roll(values[7], 1)
    return values


def test_sums_per_turn_are_those_of_the_ledger(tmp_path):
    ledger = ledger_of(tmp_path, "a", changed())
    totals = turn_totals(ledger)
    columns = ledger.columns
    assert totals.turns.tolist() == [0, 1]
    # A probe belongs to the turn of the token that it predicts: tokens 1 to 4, and 5 to 11.
    assert totals.n.tolist() == [4, 7]
    assert totals.sums["flips"].tolist() == [1, 1]
    assert totals.sums["flips_confident"].tolist() == [1, 0]
    assert totals.sums.keys() == QUANTITIES.keys()
    for turn in (0, 1):
        for name in ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation", "nll_ref"):
            mine = columns[name][columns["turn"] == turn].sum()
            assert totals.sums[name][turn] == pytest.approx(mine, rel=1e-12)
    assert totals.refusal == "2 turns, fewer than 10: counts only"


def test_a_row_that_is_not_finite_has_no_sums_and_no_interval(tmp_path):
    values = changed()
    values[4, 0] = np.nan
    ledger = ledger_of(tmp_path, "nan", values)
    with pytest.raises(InvalidInput, match="not finite"):
        turn_totals(ledger)
    intervals = ledger_intervals(ledger)
    assert intervals.count("flips") is None
    assert intervals.told == "No intervals: a row is not finite."


def test_an_interval_of_a_count_is_that_of_its_share_times_n(tmp_path):
    world = CompareWorld(root=tmp_path, turns=20)
    path = world.bundle("a", one_per_turn(range(8)), noise=0.1)
    ledger = read_ledger(path / "ledger.parquet")
    intervals = ledger_intervals(ledger)
    share, count = intervals.mean("flips"), intervals.count("flips")
    assert (count.low, count.high) == pytest.approx((share.low * 159, share.high * 159))
    assert count.low < 8 < count.high
    assert intervals.mean("jsd") is not None
    # Every flip of this candidate is uncertain: nothing of the other classes to resample.
    assert intervals.count("flips_confident") is None
    assert "20 turns resampled 100,000 times" in intervals.told


def test_ledgers_of_the_same_probes_do_not_differ(tmp_path):
    assert differing(ledger_of(tmp_path, "a", changed()), ledger_of(tmp_path, "b", logits(1))) == []


def test_every_key_in_which_ledgers_differ_is_named(tmp_path):
    first = ledger_of(tmp_path, "a", changed())
    other_rows = ledger_of(tmp_path, "b", changed(), reference=logits(3))
    decode = ledger_of(tmp_path, "c", changed(), path="decode")
    assert differing(first, other_rows) == ["reference rows"]
    assert differing(first, decode) == ["path"]
    assert told_differences(first, decode) == ["path (prefill and decode)"]


def test_other_positions_and_another_session_are_named(tmp_path):
    first = ledger_of(tmp_path, "a", changed())
    longer = read_ledger(CompareWorld(root=tmp_path, turns=12).bundle("long") / "ledger.parquet")
    assert {"tokens_sha256", "num_tokens", "positions"} <= set(differing(first, longer))
    assert len(session(12).token_ids) == 96
