import numpy as np
import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.score.labels import Labels, range_indices
from suite.score.ledger import COLUMNS, read_ledger
from suite.score.numpy_kernel import NumpyKernel
from suite.score.scorer import score_blocks, write_scores
from tests.score.session import TOKENS, logits, rendered, source

LABELS = Labels.of(rendered())


class Counting:
    """A kernel that notes how many rows it was given on each side."""

    name = "counting"

    def __init__(self):
        self.inner, self.pairs, self.singles = NumpyKernel(), 0, 0

    def score_block(self, reference, candidate, target_ids):
        if candidate is None:
            self.singles += len(reference)
        else:
            self.pairs += len(reference)
        return self.inner.score_block(reference, candidate, target_ids)


def ledger_of(tmp_path, reference, candidate, labels=LABELS, **options):
    path = tmp_path / "ledger.parquet"
    write_scores(path, source(tmp_path / "r", reference), source(tmp_path / "c", candidate, **options), labels=labels)
    return read_ledger(path)


def test_a_probe_is_labelled_by_the_token_it_predicts(tmp_path):
    labels = Labels.of(rendered(), ranges=[[6, 8], [10, 12]])
    columns = ledger_of(tmp_path, logits(), logits(), labels).columns
    assert columns["position"].tolist() == list(range(11))
    assert columns["token_id"].tolist() == TOKENS[:-1]
    assert columns["target_id"].tolist() == TOKENS[1:]
    assert columns["turn"].tolist() == [0] * 4 + [1] * 7
    kinds = ["user"] * 4 + ["scaffold"] + ["assistant_output"] * 2 + ["tool_call", "literal", "tool_call"]
    assert columns["span_kind"].tolist() == [*kinds, "assistant_output"]
    assert columns["range_index"].tolist() == [-1] * 5 + [0, 0, -1, -1, 1, 1]
    assert set(columns["window"].tolist()) == {0}
    assert set(columns["path"].tolist()) == {"prefill"}
    assert list(columns) == list(COLUMNS)


def test_known_flips_are_found_and_classed(tmp_path):
    reference, candidate = logits(), logits()
    candidate[2, 5] = reference[2].max() + 3  # confident: the reference is sure of its own
    candidate[3, 0] = reference[3].max() + 3  # leaning or uncertain, by its probability
    reference[4], candidate[4] = [2, 2, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0]  # tied
    reference[7], candidate[7] = [1, 0.5, 0.5, 0.5, 0.5, 0.5], [0.5, 1, 0.5, 0.5, 0.5, 0.5]  # uncertain
    columns = ledger_of(tmp_path, reference, candidate).columns
    assert np.flatnonzero(columns["flip"]).tolist() == [2, 3, 4, 7]
    classes = columns["flip_class"].tolist()
    leaning = "leaning" if columns["ref_p_ref_top1"][3] >= 0.5 else "uncertain"
    assert classes == ["", "", "confident", leaning, "tied", "", "", "uncertain", "", "", ""]
    assert columns["tied"].tolist() == [i == 4 for i in range(11)]


def test_equal_rows_are_not_computed_twice_and_differ_by_nothing(tmp_path):
    reference, candidate = logits(), logits()
    candidate[5] += 1
    kernel = Counting()
    blocks = list(
        score_blocks(source(tmp_path / "r", reference), source(tmp_path / "c", candidate), labels=LABELS, kernel=kernel)
    )
    assert (kernel.pairs, kernel.singles) == (1, 10)
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in COLUMNS}
    same = (columns["ref_row_sha256"] == columns["cand_row_sha256"]).all(axis=1)
    assert same.tolist() == [i != 5 for i in range(11)]
    assert (columns["kl_ref_cand"][same] == 0).all()
    other_way = source(tmp_path / "r2", candidate), source(tmp_path / "c2", reference)
    plain = list(score_blocks(*other_way, labels=LABELS, kernel=NumpyKernel()))
    assert np.concatenate([b["nll_ref"] for b in plain]).tolist() == columns["nll_cand"].tolist()


def test_rows_of_two_dtypes_are_compared_as_numbers(tmp_path):
    values = logits().astype(np.float32)
    path = tmp_path / "ledger.parquet"
    write_scores(path, source(tmp_path / "r", logits()), source(tmp_path / "c", values), labels=LABELS)
    ledger = read_ledger(path)
    assert (ledger.facts.ref_dtype, ledger.facts.cand_dtype) == ("bfloat16", "float32")
    assert (ledger.columns["kl_ref_cand"] > 0).all()
    assert (ledger.columns["kl_ref_cand"] < 1e-2).all()


def test_the_same_input_gives_the_same_bytes_however_it_is_cut(tmp_path):
    written = []
    for chunk_rows in (1, 4, 11):
        folder = tmp_path / str(chunk_rows)
        path = folder / "ledger.parquet"
        sides = [source(folder / str(seed), logits(seed), chunk_rows=chunk_rows) for seed in (0, 1)]
        write_scores(path, *sides, labels=LABELS)
        written.append(path.read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "decode"}, r"path \(prefill and decode\)"),
        ({"tokens_sha256": "9" * 64}, "tokens_sha256"),
        ({"num_tokens": 13}, r"num_tokens \(12 and 13\)"),
        ({"positions": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}, r"num_rows \(11 and 10\), positions"),
    ],
)
def test_captures_that_are_not_comparable_are_refused_naming_the_keys(tmp_path, options, told):
    values = logits()[: len(options.get("positions", range(11)))]
    ledger = tmp_path / "ledger.parquet"
    sides = source(tmp_path / "r", logits()), source(tmp_path / "c", values, **options)
    with pytest.raises(InvalidInput, match=told):
        write_scores(ledger, *sides, labels=LABELS)
    assert not ledger.exists()


def test_another_vocabulary_is_refused(tmp_path):
    wider = np.concatenate([logits(), np.zeros((11, 1))], axis=1)
    with pytest.raises(InvalidInput, match=r"vocab_size \(6 and 7\)"):
        ledger_of(tmp_path, logits(), wider)


def test_positions_that_differ_only_inside_are_refused_and_leave_no_ledger(tmp_path):
    ours = source(tmp_path / "r", logits()[:4], positions=[0, 1, 3, 10])
    theirs = source(tmp_path / "c", logits()[:4], positions=[0, 2, 3, 10])
    with pytest.raises(InvalidInput, match="positions, first at position 1"):
        write_scores(tmp_path / "ledger.parquet", ours, theirs, labels=LABELS)
    assert {path.name for path in tmp_path.iterdir()} == {"r", "c"}


def test_a_capture_of_another_workload_is_refused(tmp_path):
    other = Labels.of(rendered([*TOKENS[:-1], 0]))
    with pytest.raises(InvalidInput, match="token at position 11"):
        ledger_of(tmp_path, logits(), logits(), other)


def test_a_full_disk_is_reported_and_nothing_is_left(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(MissingPrerequisite, match="cannot be written"):
        ledger_of(tmp_path, logits(), logits())
    assert {path.name for path in tmp_path.iterdir()} == {"r", "c"}


def test_ranges_are_half_open():
    ranges = np.array([[2, 4], [4, 5], [8, 9]])
    assert range_indices(np.arange(10), ranges).tolist() == [-1, -1, 0, 0, 1, -1, -1, -1, 2, -1]
