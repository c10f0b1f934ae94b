import errno

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suite.capture.store import open_capture
from suite.errors import InvalidInput, MissingPrerequisite
from suite.llama.codes import encode_rows
from suite.llama.export import export_kld
from suite.llama.file import open_kld, survey_kld
from suite.llama.importing import import_kld
from tests.capture.synthetic import bf16, write_capture
from tests.llama.files import kld_bytes, write_kld

TOKENS = [3, 1, 4, 1, 5, 2, 6, 0, 3]


def capture_of(folder, values, positions, *, dtype="bfloat16"):
    rows = bf16(values) if dtype == "bfloat16" else values.astype(dtype)
    return open_capture(write_capture(folder, rows, TOKENS, positions=positions))


@pytest.mark.parametrize(("vocab", "clip"), [(10, 16), (11, 16), (200, 24)])
def test_an_import_comes_back_byte_for_byte(tmp_path, vocab, clip):
    path = write_kld(tmp_path / "a.kld", vocab=vocab, clip=clip)
    written = export_kld(import_kld(path, home=tmp_path), tmp_path / "b.kld")
    assert (tmp_path / "b.kld").read_bytes() == path.read_bytes()
    assert written.clip_nats == survey_kld(open_kld(path)).clip.nats


def test_the_real_file_comes_back_byte_for_byte(base_kld, tmp_path):
    export_kld(import_kld(base_kld, home=tmp_path), tmp_path / "b.kld")
    assert (tmp_path / "b.kld").read_bytes() == base_kld.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays(np.float32, (6, 5), elements=st.floats(-50, 50, width=32) | st.floats(-(2**-100), 2**-100, width=32)))
def test_codes_of_any_file_survive_import_and_export(tmp_path, logits):
    path = tmp_path / "a.kld"
    path.write_bytes(kld_bytes(logits, [1, 2] * 8, context=8))
    export_kld(import_kld(path, home=tmp_path), tmp_path / "b.kld")
    assert (tmp_path / "b.kld").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("clip", [16, 24])
def test_an_engines_capture_is_written_as_the_scalar_program_would(tmp_path, dtype, clip):
    values = np.random.default_rng(5).normal(0, 9, (4, 7)).astype(np.float16).astype(np.float32)
    values = bf16(values).astype(np.uint32).__lshift__(16).view(np.float32) if dtype == "bfloat16" else values
    capture = capture_of(tmp_path / "c", values, [4, 5, 6, 7], dtype=dtype)
    export_kld(capture, tmp_path / "a.kld", token_ids=TOKENS, clip_nats=clip)
    expected = kld_bytes(values, TOKENS, context=9, clip=clip)
    (block,) = open_kld(tmp_path / "a.kld").blocks()
    assert len(expected) == (tmp_path / "a.kld").stat().st_size
    assert np.array_equal(block.encoded.codes, encode_rows(values, clip_nats=clip).codes)
    assert block.positions.tolist() == [4, 5, 6, 7]
    assert open_kld(tmp_path / "a.kld").tokens.tolist() == TOKENS


def test_a_shorter_context_takes_the_rows_of_its_second_half(tmp_path):
    values = np.random.default_rng(5).normal(0, 9, (6, 7)).astype(np.float32)
    capture = capture_of(tmp_path / "c", values, [2, 3, 4, 5, 6, 7], dtype="float32")
    written = export_kld(capture, tmp_path / "a.kld", token_ids=TOKENS, context_tokens=6)
    (block,) = open_kld(tmp_path / "a.kld").blocks()
    assert written.header.context_tokens == 6
    assert block.positions.tolist() == [3, 4]
    assert np.array_equal(block.encoded.codes, encode_rows(values[1:3], clip_nats=16).codes)


@pytest.mark.parametrize(
    ("positions", "missing"), [([4, 5, 7], 6), ([5, 6, 7], 4), ([4, 5, 6], 7), ([0, 1, 2], 4), ([1, 3, 5, 7], 4)]
)
def test_a_missing_place_is_named_and_nothing_is_left(tmp_path, positions, missing):
    capture = capture_of(tmp_path / "c", np.eye(len(positions), 7, dtype=np.float32), positions)
    with pytest.raises(InvalidInput, match=f"no row at position {missing};"):
        export_kld(capture, tmp_path / "a.kld", token_ids=TOKENS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


def test_tokens_must_be_there_and_be_the_captured_ones(tmp_path):
    capture = capture_of(tmp_path / "c", np.eye(4, 7, dtype=np.float32), [4, 5, 6, 7])
    with pytest.raises(InvalidInput, match="does not hold the tokens"):
        export_kld(capture, tmp_path / "a.kld")
    with pytest.raises(InvalidInput, match="not the tokens"):
        export_kld(capture, tmp_path / "a.kld", token_ids=TOKENS[::-1])
    with pytest.raises(InvalidInput, match="a context of 10 tokens, of 9"):
        export_kld(capture, tmp_path / "a.kld", token_ids=TOKENS, context_tokens=10)


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    capture = import_kld(write_kld(tmp_path / "a.kld"), home=tmp_path)
    monkeypatch.setattr("suite.llama.export.os.fsync", full)
    with pytest.raises(MissingPrerequisite, match="no space left"):
        export_kld(capture, tmp_path / "new" / "b.kld")
    assert list((tmp_path / "new").iterdir()) == []


def test_an_import_keeps_its_clip(tmp_path):
    capture = import_kld(write_kld(tmp_path / "a.kld"), home=tmp_path)
    with pytest.raises(InvalidInput, match="exported as it was"):
        export_kld(capture, tmp_path / "b.kld", clip_nats=24)


def test_hidden_states_need_their_stack(tmp_path):
    from tests.capture.synthetic import write_capture as write

    head = {"sha256s": ["0" * 64]}
    folder = write(
        tmp_path / "c",
        bf16(np.eye(4, 3)),
        TOKENS,
        positions=[4, 5, 6, 7],
        fingerprint=True,
        codec="hidden",
        vocab_size=7,
        head=head,
    )
    with pytest.raises(MissingPrerequisite):
        export_kld(open_capture(folder), tmp_path / "a.kld", token_ids=TOKENS)


def test_rows_that_are_not_finite_are_written_as_such(tmp_path):
    values = np.zeros((4, 7), np.float32)
    values[1, 3] = np.nan
    capture = capture_of(tmp_path / "c", values, [4, 5, 6, 7], dtype="float32")
    written = export_kld(capture, tmp_path / "a.kld", token_ids=TOKENS)
    assert written.non_finite_rows == 1
    assert survey_kld(open_kld(tmp_path / "a.kld")).non_finite_rows == 1
