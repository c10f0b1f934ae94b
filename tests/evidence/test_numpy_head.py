import json

import numpy as np
import pytest

from suite.capture.rows import to_float32
from suite.capture.tensors import write_tensors
from suite.errors import MissingPrerequisite, VerificationFailed
from suite.evidence.numpy_head import NumpyRows, open_head
from suite.files import sha256_file
from tests.capture.synthetic import bf16
from tests.reference.world import HEAD_METADATA, hidden_capture, logits_of, reference_lock


@pytest.fixture
def stored(tmp_path):
    return hidden_capture(tmp_path, reference_lock(tmp_path))


def heads_of(stored):
    return stored.capture.folder.parent.parent / "heads"


def with_head(tmp_path, stored, *shards, **metadata):
    """The same capture with another head, whose files lie in a folder of their own."""
    folder, names = tmp_path / "other", []
    for tensors in shards:
        path = folder / "draft"
        write_tensors(path, tensors, metadata=HEAD_METADATA | metadata)
        names.append(sha256_file(path))
        path.rename(folder / f"{names[-1]}.safetensors")
    head = stored.capture.index.head.model_copy(update={"sha256s": tuple(names)})
    return stored.capture.index.model_copy(update={"head": head}), folder


def weights(seed=1):
    return bf16(np.random.default_rng(seed).normal(0, 1, (128, 8)))


HIDDEN = bf16(np.random.default_rng(9).normal(0, 1, (5, 8)))


def test_rows_are_those_of_the_capture(stored):
    blocks = list(NumpyRows(capture=stored.capture, heads=heads_of(stored)).blocks())
    positions = np.concatenate([block.positions for block in blocks])
    assert positions.tolist() == stored.capture.probes().positions.tolist()
    assert all(block.replayed is None for block in blocks)


def test_shards_are_put_side_by_side_and_padding_is_cut(tmp_path, stored):
    weight = weights()
    padded = np.concatenate([weight, weight[:16]])
    index, folder = with_head(tmp_path, stored, {"weight": padded[:80]}, {"weight": padded[80:]})
    assert np.array_equal(open_head(index, folder).logits(HIDDEN), logits_of(HIDDEN, weight))


def test_bias_cap_and_scale_are_rounded_one_by_one(tmp_path, stored):
    bias = bf16(np.random.default_rng(2).normal(0, 1, 128))
    index, folder = with_head(tmp_path, stored, {"weight": weights(), "bias": bias}, soft_cap="3.0", scale="0.5")
    found = open_head(index, folder).logits(HIDDEN)
    step = to_float32(bf16(to_float32(HIDDEN) @ to_float32(weights()).T + to_float32(bias)))
    step = to_float32(bf16(step / np.float32(3)))
    step = to_float32(bf16(np.tanh(step)))
    step = to_float32(bf16(step * np.float32(3)))
    assert np.array_equal(found, bf16(step * np.float32(0.5)))
    assert np.abs(to_float32(found)).max() <= 1.5


@pytest.mark.parametrize(("dtype", "kind"), [("float32", np.float32), ("float16", np.float16)])
def test_a_projection_in_another_dtype_is_not_rounded_to_bfloat16(tmp_path, stored, dtype, kind):
    weight = to_float32(weights()).astype(kind)
    index, folder = with_head(tmp_path, stored, {"weight": weight}, dtype=json.dumps(dtype))
    found = open_head(index, folder).logits(HIDDEN)
    assert found.dtype == kind
    np.testing.assert_allclose(found, to_float32(HIDDEN) @ weight.astype(np.float32).T, rtol=2e-3, atol=2e-3)


def test_a_not_a_number_stays_one(tmp_path, stored):
    index, folder = with_head(tmp_path, stored, {"weight": weights()})
    hidden = HIDDEN.copy()
    hidden[0, 0] = 0x7FC1
    found = to_float32(open_head(index, folder).logits(hidden))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1:]).all()


def test_other_hidden_states_are_refused(stored):
    capture = stored.capture
    path = capture.folder / capture.index.chunks[0].file
    data = bytearray(path.read_bytes())
    header = int.from_bytes(data[:8], "little")
    data[8 + header : 8 + header + 16] = HIDDEN[0].tobytes()
    path.write_bytes(bytes(data))
    with pytest.raises(VerificationFailed, match="is not near the captured one"):
        list(NumpyRows(capture=capture, heads=heads_of(stored)).blocks())


def test_a_head_that_is_absent_changed_or_none_is_refused(tmp_path, stored):
    with pytest.raises(MissingPrerequisite, match="the head of this capture is absent"):
        open_head(stored.capture.index, tmp_path / "nowhere")
    (path,) = heads_of(stored).iterdir()
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(VerificationFailed, match="not those of its name"):
        open_head(stored.capture.index, heads_of(stored))
    index, folder = with_head(tmp_path, stored, {"weight": weights()[:, :4]})
    with pytest.raises(VerificationFailed, match=r"the weight is BF16 \[128, 4\]"):
        open_head(index, folder)


def test_shards_of_two_heads_are_refused(tmp_path, stored):
    first, folder = with_head(tmp_path, stored, {"weight": weights()[:64]})
    second, _ = with_head(tmp_path, stored, {"weight": weights()[64:]}, scale="2.0")
    head = first.head.model_copy(update={"sha256s": first.head.sha256s + second.head.sha256s})
    with pytest.raises(VerificationFailed, match="not that of the shard before"):
        open_head(first.model_copy(update={"head": head}), folder)
