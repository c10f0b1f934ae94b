"""Scores that rest on rows which were recomputed on another processor."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from suite.capture.rows import RowBlock, RowSource, open_rows
from suite.capture.store import open_capture
from suite.errors import VerificationFailed
from suite.run.elsewhere import fingerprint_of, settle
from suite.score.check import check_ledger, check_same_scores
from suite.score.labels import Labels
from suite.score.ledger import Ledger, read_ledger
from suite.score.scorer import write_scores
from suite.score.summary import summarise
from tests.capture.synthetic import bf16, write_capture
from tests.score.session import logits, rendered

EXACT = ("ref_top1", "cand_top1", "flip", "tied", "rank_ref_top1_in_cand", "ref_margin_nats", "ref_margin_ulps")


@dataclass(frozen=True)
class Elsewhere:
    """Rows of a capture as another processor gives them back: the chosen rows one step off in their worst logit."""

    source: RowSource
    capture: object
    rows: tuple[int, ...]

    @property
    def index(self):
        return self.source.index

    def blocks(self) -> Iterator[RowBlock]:
        facts, first = fingerprint_of(self.capture), 0
        for block in self.source.blocks():
            other = block.rows.copy()
            for row in range(len(other)):
                if first + row in self.rows:
                    # All six ids are stored with the row, so what is left of the step is the mark.
                    other[row, int(np.argmin(facts.top_logits[first + row].view(np.int16)))] += 1
            yield settle(replace(block, rows=other), facts, first, where="capture")
            first += len(block.positions)


def ledger_of(tmp_path, name, replayed=(), candidate=None) -> Ledger:
    folder = write_capture(tmp_path / f"{name}-ref", bf16(logits()), list(rendered().token_ids), fingerprint=True)
    values = logits(1) if candidate is None else candidate
    other = write_capture(tmp_path / f"{name}-cand", bf16(values), list(rendered().token_ids))
    capture = open_capture(folder)
    reference = Elsewhere(open_rows(capture), capture, replayed)
    path = tmp_path / f"{name}.parquet"
    write_scores(path, reference, open_rows(open_capture(other)), labels=Labels.of(rendered()))
    return read_ledger(path)


def test_marked_rows_are_counted_and_their_ids_are_the_captured_ones(tmp_path):
    plain, replayed = ledger_of(tmp_path, "plain"), ledger_of(tmp_path, "replayed", (1, 4))
    assert plain.columns["replayed"].sum() == 0
    assert np.flatnonzero(replayed.columns["replayed"]).tolist() == [1, 4]
    for name in EXACT:
        assert np.array_equal(plain.columns[name], replayed.columns[name]), name
    assert np.array_equal(plain.columns["ref_row_sha256"], replayed.columns["ref_row_sha256"])
    check_ledger(replayed)
    assert summarise(replayed).replayed_rows == 2
    assert summarise(plain).replayed_rows == 0


def test_a_row_equal_to_the_candidates_is_exact_even_when_replayed(tmp_path):
    values = logits(1)
    values[4] = logits()[4]
    ledger = ledger_of(tmp_path, "one", (1, 4), candidate=values)
    assert np.flatnonzero(ledger.columns["replayed"]).tolist() == [1]
    assert ledger.columns["kl_ref_cand"][4] == 0
    check_ledger(ledger)


def test_a_ledger_that_marks_equal_rows_is_refused(tmp_path):
    values = logits(1)
    values[4] = logits()[4]
    ledger = ledger_of(tmp_path, "one", candidate=values)
    ledger.columns["replayed"] = np.arange(11) == 4
    with pytest.raises(VerificationFailed, match="position 4: replayed, though both rows are the same"):
        check_ledger(ledger)


def changed(ledger: Ledger, **columns):
    return {name: values.copy() for name, values in ledger.columns.items()} | columns


def test_a_ledger_is_checked_nearly_where_rows_were_replayed_and_exactly_elsewhere(tmp_path):
    plain, replayed = ledger_of(tmp_path, "plain"), ledger_of(tmp_path, "replayed", (1, 4))
    for claimed, computed in ((plain, replayed), (replayed, plain)):
        check_same_scores(claimed.columns, computed.columns)
    moved = plain.columns["kl_ref_cand"].copy()
    moved[1] += 0.01
    check_same_scores(changed(plain, kl_ref_cand=moved), replayed.columns)
    with pytest.raises(VerificationFailed, match="position 1: kl_ref_cand"):
        check_same_scores(changed(plain, kl_ref_cand=moved), plain.columns)
    moved[2] += 0.01
    with pytest.raises(VerificationFailed, match="position 2: kl_ref_cand"):
        check_same_scores(changed(plain, kl_ref_cand=moved), replayed.columns)
    far = plain.columns["kl_ref_cand"].copy()
    far[1] += 0.2
    with pytest.raises(VerificationFailed, match="position 1: kl_ref_cand"):
        check_same_scores(changed(plain, kl_ref_cand=far), replayed.columns)


def test_ids_must_agree_where_rows_were_replayed(tmp_path):
    plain, replayed = ledger_of(tmp_path, "plain"), ledger_of(tmp_path, "replayed", (1, 4))
    ids = plain.columns["ref_top1"].copy()
    ids[1] = (ids[1] + 1) % 6
    with pytest.raises(VerificationFailed, match="position 1: ref_top1"):
        check_same_scores(changed(plain, ref_top1=ids), replayed.columns)
