from dataclasses import replace

import numpy as np
import pytest

from suite.errors import VerificationFailed
from suite.score.check import check_ledger, check_same_scores
from suite.score.labels import Labels
from suite.score.ledger import read_ledger
from suite.score.scorer import write_scores
from tests.score.session import logits, rendered, source


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    reference, candidate = logits(0), np.roll(logits(1), 1, axis=1)
    candidate[1] = reference[1]
    candidate[3, 1] = np.inf
    sides = [source(folder / name, v) for name, v in (("r", reference), ("c", candidate))]
    write_scores(folder / "ledger.parquet", *sides, labels=Labels.of(rendered()))
    return read_ledger(folder / "ledger.parquet")


def test_an_honest_ledger_passes_even_with_an_invalid_row(ledger):
    check_ledger(ledger)


@pytest.mark.parametrize(
    ("column", "row", "value", "told"),
    [
        ("position", 2, 1, "positions do not increase"),
        ("position", 10, 11, "no token follows"),
        ("window", 0, 1, "window"),
        ("path", 0, "decode", "path"),
        ("token_id", 4, 0, "not the target of the position before"),
        ("target_id", 4, 6, "target_id is no id"),
        ("ref_top1", 4, 6, "ref_top1 is no id"),
        ("flip", 1, True, "flip does not follow"),
        ("tied", 1, True, "tied without a flip"),
        ("flip_class", 0, "tied", "flip_class does not follow"),
        ("rank_ref_top1_in_cand", 1, 2, "rank is not 1"),
        ("rank_ref_top1_in_cand", 0, 7, "rank lies outside"),
        ("ref_p_ref_top1", 1, 1.5, "no probability"),
        ("cand_p_ref_top1", 0, 0.9999, "candidate prefers another"),
        ("nll_ref", 0, -1.0, "nll_ref is negative"),
        ("nll_cand", 0, 1e-6, "below that of the most likely"),
        ("entropy_ref", 0, 1.9, "entropy_ref is impossible"),
        ("entropy_ref", 0, 0.0, "entropy_ref is below"),
        ("ref_p_cand_top1", 1, 0.4, "two probabilities of one top-1"),
        ("nll_ref", 2, 1.0, "nll_ref is not -ln of its token's probability"),
        ("entropy_ref", 2, 0.9, "above what the largest probability leaves"),
        ("tied", 0, True, "tied, and both probabilities differ"),
        ("total_variation", 0, 0.01, "total variation is below what ref_top1 alone makes"),
        ("kl_ref_cand", 0, 5.0, "kl_ref_cand is below what ref_top1 alone makes"),
        ("kl_cand_ref", 0, 4.0, "kl_cand_ref is below what"),
        ("kl_ref_cand", 0, -1e-3, "kl_ref_cand is negative"),
        ("jsd", 0, 0.7, "jsd is above"),
        ("total_variation", 0, 0.999999, "sqrt"),
        ("kl_ref_cand", 1, 1e-9, "not 0 between equal rows"),
        ("entropy_cand", 1, 1.6, "differ between equal rows"),
        ("jsd", 0, np.nan, "not finite exactly where"),
        ("jsd", 3, 0.1, "not finite exactly where"),
        ("ref_top1", 3, 2, "a row that is not finite has scores"),
    ],
)
def test_every_broken_identity_is_named_with_its_position(ledger, column, row, value, told):
    columns = dict(ledger.columns)
    columns[column] = columns[column].astype("<U20") if columns[column].dtype.kind == "U" else columns[column].copy()
    columns[column][row] = value
    if (column, value) == ("total_variation", 0.999999):
        for name in ("kl_ref_cand", "kl_cand_ref"):
            columns[name] = columns[name].copy()
            columns[name][row] = 0.5
    if (column, value) == ("tied", True) and row == 0:
        columns["flip_class"] = columns["flip_class"].astype("<U20")
        columns["flip_class"][row] = "tied"
    with pytest.raises(VerificationFailed, match=f"position .*{told}"):
        check_ledger(replace(ledger, columns=columns))


@pytest.mark.parametrize("column", ["kl_ref_cand", "flip", "ref_top1", "cand_row_sha256"])
def test_a_column_that_was_changed_is_named(ledger, column):
    changed = dict(ledger.columns)
    values = changed[column].copy()
    values[5] = ~values[5] if values.dtype == np.bool_ else values[5] * 1.0001 + 1
    changed[column] = values
    with pytest.raises(VerificationFailed, match=f"position 5: {column} is"):
        check_same_scores(changed, ledger.columns)


def test_the_last_digits_may_differ_between_processors(ledger):
    near = dict(ledger.columns)
    near["kl_ref_cand"] = near["kl_ref_cand"] * (1 + 1e-12) + 1e-14
    check_same_scores(near, ledger.columns)
