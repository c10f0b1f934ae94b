import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import RunFailed
from suite.score.labels import Labels
from suite.score.ledger import read_ledger
from suite.score.scorer import write_scores
from suite.score.summary import quantile, require_valid, summarise
from tests.score.session import TOKENS, logits, rendered, source


def headlines_of(tmp_path, reference, candidate):
    sides = [source(tmp_path / name, values) for name, values in (("r", reference), ("c", candidate))]
    write_scores(tmp_path / "ledger.parquet", *sides, labels=Labels.of(rendered()))
    return summarise(read_ledger(tmp_path / "ledger.parquet")), read_ledger(tmp_path / "ledger.parquet").columns


def test_counts_add_up_and_means_are_those_of_the_ledger(tmp_path):
    h, columns = headlines_of(tmp_path, logits(0), np.roll(logits(1), 1, axis=1))
    assert h.n == 11
    assert h.flips == int(columns["flip"].sum()) > 0
    assert h.flips_tied + h.flips_uncertain + h.flips_leaning + h.flips_confident == h.flips
    assert h.top1_agreement == (11 - h.flips) / 11
    assert h.kl_ref_cand.mean == pytest.approx(columns["kl_ref_cand"].mean(), rel=1e-14)
    assert h.kl_ref_cand.median == np.median(columns["kl_ref_cand"])
    assert h.jsd.max == columns["jsd"].max()
    assert h.kl_cand_ref.p999 is None
    assert h.nll_cand == pytest.approx(columns["nll_cand"].mean(), rel=1e-14)
    assert h.rounding_kl > 0
    assert h.identical_rows == 0


def test_off_policy_counts_probes_whose_token_the_reference_would_not_take(tmp_path):
    reference = logits()
    reference[4, (TOKENS[5] + 1) % 6] = 30
    h, _ = headlines_of(tmp_path, reference, logits())
    assert (h.off_policy.count, h.off_policy.n) == (1, 11)
    assert [(g.key, g.off_policy) for g in h.by_span if g.off_policy] == [("scaffold", 1)]


def test_groups_partition_the_probes(tmp_path):
    h, columns = headlines_of(tmp_path, logits(0), np.roll(logits(1), 1, axis=1))
    for groups in (h.by_window, h.by_range, h.by_turn, h.by_span):
        for name in ("n", "flips", "flips_tied", "flips_uncertain", "flips_leaning", "flips_confident"):
            assert sum(getattr(g, name) for g in groups) == getattr(h, name)
        assert sum(g.off_policy for g in groups) == h.off_policy.count
    assert [(g.key, g.n) for g in h.by_turn] == [(0, 4), (1, 7)]
    assert {g.key: g.n for g in h.by_span} == {
        "assistant_output": 3,
        "literal": 1,
        "scaffold": 1,
        "tool_call": 2,
        "user": 4,
    }
    mean = columns["kl_ref_cand"][columns["turn"] == 1].mean()
    assert h.by_turn[1].kl_ref_cand_mean == pytest.approx(mean, rel=1e-14)


def test_one_invalid_row_leaves_counts_and_takes_every_mean_away(tmp_path):
    candidate = logits()
    candidate[3, 2] = np.nan
    h, _ = headlines_of(tmp_path, logits(), candidate)
    assert (h.n, h.invalid_rows, h.flips) == (11, 1, 0)
    absent = (
        "kl_ref_cand",
        "kl_cand_ref",
        "jsd",
        "total_variation",
        "nll_ref",
        "nll_cand",
        "rounding_kl",
        "top1_agreement",
    )
    assert [getattr(h, name) for name in absent] == [None] * len(absent)
    assert [(g.key, g.invalid_rows, g.kl_ref_cand_mean is None) for g in h.by_turn] == [(0, 1, True), (1, 0, False)]
    with pytest.raises(RunFailed, match="1 of 11 probes"):
        require_valid(h)


def test_valid_headlines_pass(tmp_path):
    require_valid(headlines_of(tmp_path, logits(), logits())[0])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=40), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values, share):
    ordered = sorted(values)
    assert quantile(ordered, share) == pytest.approx(float(np.quantile(ordered, share)), rel=1e-12, abs=1e-12)


def test_a_quantile_of_one_is_the_largest():
    assert quantile([1.0, 2.0, 4.0], 1.0) == 4.0
    assert math.isclose(quantile([1.0, 2.0], 0.25), 1.25)
