import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.capture.rows import aligned, open_rows
from suite.capture.store import open_capture
from suite.capture.tensors import open_tensors
from suite.errors import InvalidInput, VerificationFailed
from tests.capture.synthetic import bf16, write_capture

TOKENS = [0, 1, 2, 3] * 4


def source(folder, **options):
    values = bf16(np.random.default_rng(0).normal(0, 3, (12, 4)))
    return open_rows(open_capture(write_capture(folder, values[: options.pop("n", 12)], TOKENS, **options)))


@given(left=st.integers(1, 13), right=st.integers(1, 13))
def test_blocks_align_whatever_the_chunks_are(tmp_path_factory, left, right):
    folder = tmp_path_factory.mktemp("align")
    pairs = list(aligned(source(folder / "a", chunk_rows=left), source(folder / "b", chunk_rows=right)))
    assert [p for a, _ in pairs for p in a.positions] == list(range(12))
    for a, b in pairs:
        np.testing.assert_array_equal(a.positions, b.positions)
        np.testing.assert_array_equal(a.rows, b.rows)


def test_other_positions_are_refused_with_the_first(tmp_path):
    shifted = [*range(6), *range(7, 13)]
    with pytest.raises(InvalidInput, match="differ in positions, first at position 6"):
        list(aligned(source(tmp_path / "a"), source(tmp_path / "b", positions=shifted)))


def test_other_tokens_are_refused(tmp_path):
    values = bf16(np.zeros((12, 4)))
    other = open_rows(open_capture(write_capture(tmp_path / "b", values, TOKENS[:8] + [3] * 8)))
    with pytest.raises(InvalidInput, match="differ in target_ids, first at position 7"):
        list(aligned(source(tmp_path / "a"), other))


def test_a_source_that_ends_early_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="one ends before the other"):
        list(aligned(source(tmp_path / "a"), source(tmp_path / "b", n=9)))


def test_a_row_that_changed_on_disk_is_never_scored(tmp_path):
    rows = source(tmp_path / "a", chunk_rows=5)
    chunk = tmp_path / "a" / rows.index.chunks[1].file
    data = bytearray(chunk.read_bytes())
    data[data.index(open_tensors(chunk).read("rows").tobytes())] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(VerificationFailed, match=r"chunk-00001.*position 5: the row does not match its hash"):
        list(rows.blocks())
