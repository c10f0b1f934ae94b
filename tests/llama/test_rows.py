import hashlib
import math

import numpy as np
import pytest

from suite.errors import InvalidInput
from suite.llama.file import open_kld
from suite.llama.rows import MODEL_RUNNER, open_llama_rows
from suite.score.ledger import read_ledger
from suite.score.scorer import write_scores
from suite.score.summary import summarise
from tests.llama.files import write_kld


def test_the_index_describes_the_file_as_a_capture(tmp_path):
    path = write_kld(tmp_path / "a.kld", context=8, chunks=3, vocab=11)
    index = open_llama_rows(path).index
    assert (index.codec, index.dtype, index.path) == ("logits", "float32", "prefill")
    assert (index.num_rows, index.num_tokens, index.vocab_size) == (9, 24, 11)
    assert index.steps == ((0, 8), (8, 8), (16, 8))
    assert [(c.first_position, c.last_position) for c in index.chunks] == [(4, 6), (12, 14), (20, 22)]
    assert index.engine.model_runner == MODEL_RUNNER
    tokens = open_kld(path).tokens.astype("<i4").tobytes()
    assert index.tokens_sha256 == hashlib.sha256(tokens).hexdigest()


def test_the_same_file_has_the_same_digest_wherever_it_lies(tmp_path):
    digests = {
        open_llama_rows(write_kld(tmp_path / name, seed=seed)).index.capture_digest
        for name, seed in (("a.kld", 0), ("b.kld", 0), ("c.kld", 1))
    }
    assert len(digests) == 2


def test_a_softmax_of_the_rows_is_the_files_distribution(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    encoded = [block.encoded for block in open_kld(path).blocks()]
    rows = [block.rows.astype(np.float64) for block in open_llama_rows(path).blocks()]
    for ours, stored in zip(rows, encoded, strict=True):
        raw = np.exp(stored.log_p().astype(np.float64))
        np.testing.assert_allclose(
            np.exp(ours) / np.exp(ours).sum(axis=1, keepdims=True), raw / raw.sum(axis=1, keepdims=True), rtol=1e-5
        )


def test_each_chunk_is_a_turn(tmp_path):
    labels = open_llama_rows(write_kld(tmp_path / "a.kld", context=8, chunks=3)).labels
    assert labels.turns.tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_two_real_files_are_scored_without_an_import(base_kld, q4_0_kld, tmp_path):
    base, candidate = open_llama_rows(base_kld), open_llama_rows(q4_0_kld)
    count = write_scores(tmp_path / "ledger.parquet", base, candidate, labels=base.labels)
    headlines = summarise(read_ledger(tmp_path / "ledger.parquet"))
    assert count == headlines.n == 127
    assert headlines.flips == 45
    assert headlines.kl_ref_cand.mean == pytest.approx(0.262312, abs=1e-6)
    assert math.exp(headlines.nll_ref) == pytest.approx(16.477668, abs=1e-5)
    assert headlines.invalid_rows == 0


def test_a_stated_clip_that_is_too_narrow_is_refused(tmp_path):
    path = write_kld(tmp_path / "a.kld", clip=24, vocab=200)
    assert open_llama_rows(path, clip="24").survey.clip.source == "stated"
    with pytest.raises(InvalidInput, match="more than max-16"):
        open_llama_rows(path, clip="16")
