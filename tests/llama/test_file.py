import hashlib
import math
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.llama.file import is_kld_file, open_kld, require_same_probes, survey_kld
from tests.llama.files import kld_bytes, scalar_row, write_kld


@pytest.mark.parametrize(("context", "vocab"), [(8, 10), (8, 11), (9, 7), (3, 2)])
def test_rows_positions_and_targets_are_where_the_format_puts_them(tmp_path, context, vocab):
    random = np.random.default_rng(3)
    per_chunk = context - 1 - context // 2
    logits = random.normal(0, 9, (2 * per_chunk, vocab)).astype(np.float32)
    tokens = random.integers(0, vocab, 2 * context).tolist()
    path = tmp_path / "a.kld"
    path.write_bytes(kld_bytes(logits, tokens, context=context, pad=0xBEEF))
    blocks = list(open_kld(path).blocks())
    positions = [chunk * context + context // 2 + row for chunk in range(2) for row in range(per_chunk)]
    assert np.concatenate([block.positions for block in blocks]).tolist() == positions
    assert np.concatenate([block.target_ids for block in blocks]).tolist() == [tokens[p + 1] for p in positions]
    codes = np.concatenate([block.encoded.codes for block in blocks])
    assert codes.tolist() == [scalar_row(row)[2] for row in logits]


def test_the_real_file_opens(base_kld):
    file = open_kld(base_kld)
    assert (file.header.context_tokens, file.header.vocab_size, file.header.num_chunks) == (256, 49152, 1)
    survey = survey_kld(file)
    assert survey.sha256 == hashlib.sha256(base_kld.read_bytes()).hexdigest()
    assert survey.clip.nats == 16
    assert survey.non_finite_rows == 0
    assert math.exp(survey.mean_nll) == pytest.approx(16.442123, rel=1e-6)
    assert is_kld_file(base_kld)


def test_memory_stays_at_a_block_of_rows(base_kld):
    file = open_kld(base_kld)
    tracemalloc.start()
    survey_kld(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 14 << 20  # the file has 12.5 MB; two blocks of 64 rows have 12.6


@pytest.mark.parametrize("keep", [0, 7, 12, 19, 20, 50, -1, -200])
def test_truncated_files_are_refused(tmp_path, keep):
    path = write_kld(tmp_path / "a.kld")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidInput):
        open_kld(path)


def test_a_file_that_shrinks_while_it_is_read_is_noticed(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    file = open_kld(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(VerificationFailed, match="shorter"):
        survey_kld(file)


def test_trailing_bytes_and_absent_files_are_refused(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InvalidInput, match="1 bytes follow"):
        open_kld(path)
    with pytest.raises(InvalidInput, match="no such file"):
        open_kld(tmp_path / "none.kld")
    assert not is_kld_file(tmp_path)


@pytest.mark.parametrize("token", [-1, 11, 2**31 - 1])
def test_a_token_outside_the_vocabulary_is_named(tmp_path, token):
    path = write_kld(tmp_path / "a.kld")
    data = bytearray(path.read_bytes())
    data[20 + 4 * 5 : 20 + 4 * 6] = struct.pack("<i", token)
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=f"token 5 has the id {token}"):
        open_kld(path)


def _with_numbers(path, row: int, scale: float, floor: float):
    header = open_kld(path).header
    data = bytearray(path.read_bytes())
    at = header.rows_offset_bytes + row * header.row_bytes
    data[at : at + 8] = struct.pack("<2f", scale, floor)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("scale", "floor"), [(math.nan, -3), (1e-4, math.nan), (math.inf, -3), (1e-4, -math.inf)])
def test_rows_that_are_not_finite_are_counted_not_dropped(tmp_path, scale, floor):
    path = _with_numbers(write_kld(tmp_path / "a.kld"), 2, scale, floor)
    survey = survey_kld(open_kld(path))
    assert survey.non_finite_rows == 1
    assert math.isfinite(survey.mean_nll)
    rows = np.concatenate([block.encoded.logits() for block in open_kld(path).blocks()])
    assert np.flatnonzero(np.isnan(rows).any(axis=1)).tolist() == [2]


@pytest.mark.parametrize(("scale", "floor"), [(-1e-4, -3), (1e-4, 4), (1e30, -3)])
def test_numbers_that_give_no_log_probability_are_refused(tmp_path, scale, floor):
    path = _with_numbers(write_kld(tmp_path / "a.kld"), 2, scale, floor)
    with pytest.raises(InvalidInput, match="position 6: a scale of"):
        survey_kld(open_kld(path))


def test_targets_at_the_clip_are_counted(tmp_path):
    logits = np.array([[0, 10, -30], [0, 10, -30], [0, 5, 9]], np.float32)
    path = tmp_path / "a.kld"
    path.write_bytes(kld_bytes(logits, [0, 0, 0, 0, 0, 2, 1, 0], context=8))
    assert survey_kld(open_kld(path)).clipped_targets == 1


def test_a_row_without_bounds_beside_finite_ones_is_counted(tmp_path):
    """Its scale is infinite, and is multiplied by nothing."""
    whole = bytearray(kld_bytes(np.eye(6, 5, dtype=np.float32) * 20, [1, 2] * 8, context=8))
    whole[127] = 127  # the highest byte of a row's scale
    path = tmp_path / "a.kld"
    path.write_bytes(whole)
    survey = survey_kld(open_kld(path))
    assert survey.non_finite_rows == 1
    assert survey.mean_nll is not None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_end_in_an_answer_or_a_clean_error(tmp_path, data):
    whole = bytearray(kld_bytes(np.eye(6, 5, dtype=np.float32) * 20, [1, 2] * 8, context=8))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "a.kld"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    try:
        survey = survey_kld(open_kld(path))
    except SuiteError:
        return
    assert len(survey.chunk_sha256s) == 2
    assert 0 <= survey.non_finite_rows <= 6


def test_files_of_other_tokens_or_sizes_are_not_compared(tmp_path):
    first = open_kld(write_kld(tmp_path / "a.kld"))
    require_same_probes(first, open_kld(write_kld(tmp_path / "b.kld", seed=9)))
    with pytest.raises(InvalidInput, match="tokens, first at"):
        require_same_probes(first, open_kld(write_kld(tmp_path / "c.kld", tokens_seed=2)))
    with pytest.raises(
        InvalidInput, match=r"context_tokens \(8 and 6\), vocab_size \(11 and 12\), num_chunks \(3 and 2\)"
    ):
        require_same_probes(first, open_kld(write_kld(tmp_path / "d.kld", context=6, vocab=12, chunks=2)))
