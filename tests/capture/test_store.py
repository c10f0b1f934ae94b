import json

import numpy as np
import pytest

from suite.capture.rows import open_rows, to_float32
from suite.capture.store import open_capture
from suite.capture.tensors import open_tensors, write_tensors
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.files import canonical_json, sha256_file
from tests.capture.synthetic import bf16, write_capture

TOKENS = [0, 1, 2, 3, 0, 1, 2, 3]


def rows(seed=0, shape=(7, 4)):
    return bf16(np.random.default_rng(seed).normal(0, 3, shape))


def reseal(folder, chunk, tensors):
    """Write a chunk again and let the index name its new hash: a forger who keeps the hashes right."""
    path = folder / chunk
    write_tensors(path, tensors)
    index = json.loads((folder / "index.json").read_text())
    for entry in index["chunks"]:
        if entry["file"] == chunk:
            entry |= {"sha256": sha256_file(path), "size_bytes": path.stat().st_size}
    (folder / "index.json").write_bytes(canonical_json(index))


def tensors_of(folder, chunk):
    file = open_tensors(folder / chunk)
    return {name: file.read(name) for name in file.tensors}


@pytest.mark.parametrize("fingerprint", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_rows_come_back_exactly_in_every_dtype(tmp_path, dtype, fingerprint):
    exact = np.random.default_rng(1).normal(0, 3, (7, 4)).astype(np.float32)
    stored = bf16(exact) if dtype == "bfloat16" else exact.astype(dtype)
    capture = open_capture(write_capture(tmp_path, stored, TOKENS, fingerprint=fingerprint))
    capture.verify()
    blocks = list(open_rows(capture).blocks())
    np.testing.assert_array_equal(np.concatenate([block.rows for block in blocks]), stored)
    assert [p for block in blocks for p in block.positions] == list(range(7))
    assert [t for block in blocks for t in block.target_ids] == TOKENS[1:]


def test_bf16_bits_become_the_same_float32_numbers():
    bits = np.array([0x3F80, 0xC000, 0x7F7F, 0x0001, 0x8000], dtype=np.uint16)
    expected = np.array([1.0, -2.0, 3.3895313892515355e38, 9.183549615799121e-41, -0.0], dtype=np.float32)
    np.testing.assert_array_equal(to_float32(bits).view(np.uint32), expected.view(np.uint32))


def test_every_changed_byte_of_a_chunk_is_caught(tmp_path):
    folder = write_capture(tmp_path, rows(shape=(2, 4)), TOKENS)
    path = folder / "chunk-00000.safetensors"
    data = path.read_bytes()
    capture = open_capture(folder)
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(VerificationFailed, match=r"chunk-00000.*not those that were captured"):
            capture.verify()


def test_a_missing_chunk_is_named(tmp_path):
    folder = write_capture(tmp_path, rows(), TOKENS)
    (folder / "chunk-00001.safetensors").unlink()
    with pytest.raises(VerificationFailed, match=r"chunk-00001.*missing") as caught:
        open_capture(folder)
    assert "run it again" in str(caught.value)


def test_a_truncated_chunk_is_named_with_both_sizes(tmp_path):
    folder = write_capture(tmp_path, rows(), TOKENS)
    path = folder / "chunk-00002.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(VerificationFailed, match=rf"chunk-00002.*{size - 3} bytes, the index says {size}"):
        open_capture(folder)


def test_a_chunk_that_is_a_link_is_refused(tmp_path):
    folder = write_capture(tmp_path / "c", rows(), TOKENS)
    path = folder / "chunk-00001.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VerificationFailed, match="missing"):
        open_capture(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t | {"positions": np.array([0, 2, 2])}, "positions do not increase after 2"),
        (lambda t: t | {"positions": np.array([0, 1, 3])}, "run from 0 to 3, the index says 0 to 2"),
        (lambda t: t | {"target_ids": np.array([0, 4, 1])}, "target_ids holds an id outside"),
        (lambda t: t | {"rows": t["rows"] + np.uint16(1)}, "position 0: the row does not match its hash"),
        (lambda t: t | {"rows": t["rows"][:, :3].copy()}, "'rows' is BF16"),
        (lambda t: t | {"rows": t["rows"].astype(np.float16)}, "'rows' is F16"),
        (lambda t: {k: v for k, v in t.items() if k != "row_sha256"}, "'row_sha256' is absent"),
        (lambda t: t | {"more": np.zeros(3)}, "'more' is F64"),
    ],
)
def test_a_resealed_forgery_is_caught_by_what_it_holds(tmp_path, change, told):
    folder = write_capture(tmp_path, rows(), TOKENS)
    reseal(folder, "chunk-00000.safetensors", change(tensors_of(folder, "chunk-00000.safetensors")))
    with pytest.raises(VerificationFailed, match=told):
        open_capture(folder).verify()


def test_a_stored_best_id_that_is_not_the_rows_is_caught(tmp_path):
    folder = write_capture(tmp_path, rows(), TOKENS, fingerprint=True)
    tensors = tensors_of(folder, "chunk-00000.safetensors")
    tensors["top_ids"] = tensors["top_ids"][:, ::-1].copy()
    reseal(folder, "chunk-00000.safetensors", tensors)
    with pytest.raises(VerificationFailed, match="stored best id"):
        open_capture(folder).verify()


def test_non_finite_rows_are_counted_and_fatal(tmp_path):
    values = rows()
    values[4, 1] = 0x7FC0
    capture = open_capture(write_capture(tmp_path, values, TOKENS))
    capture.verify()
    with pytest.raises(RunFailed, match=r"1 of 7 rows hold NaN .*chunk-00001\.safetensors at position 4"):
        capture.require_finite()


def test_a_finite_capture_may_be_used(tmp_path):
    open_capture(write_capture(tmp_path, rows(), TOKENS)).require_finite()


def test_hidden_non_finite_rows_are_caught(tmp_path):
    values = rows()
    values[4, 1] = 0x7F80
    folder = write_capture(tmp_path, values, TOKENS, non_finite_rows=0)
    with pytest.raises(VerificationFailed, match="1 rows are not finite, the index says 0"):
        open_capture(folder).verify()


def test_another_receipt_is_caught(tmp_path):
    folder = write_capture(tmp_path, rows(), TOKENS)
    (folder / "receipt.json").write_text("{}")
    with pytest.raises(VerificationFailed, match="not the receipt"):
        open_capture(folder).verify()


def test_hidden_states_need_a_replay(tmp_path):
    head = {"sha256s": ["a" * 64], "scale": 1.0, "soft_cap": None, "has_bias": False}
    folder = write_capture(tmp_path, rows(), TOKENS, fingerprint=True, codec="hidden", head=head)
    capture = open_capture(folder)
    with pytest.raises(MissingPrerequisite, match="hidden states"):
        open_rows(capture)
    source = object()
    assert open_rows(capture, replay=lambda given: source if given is capture else None) is source


def test_choices_are_the_same_from_rows_and_from_the_fingerprint(tmp_path):
    values = bf16([[1, 3, 3, 0], [2, 1, 0, -1], [0, 0, 0, 0], [5, 4, 3, 2]])
    wanted = np.array([True, False, True, True])
    plain = open_capture(write_capture(tmp_path / "a", values, TOKENS)).choices(wanted)
    kept = open_capture(write_capture(tmp_path / "b", values, TOKENS, fingerprint=True)).choices(wanted)
    assert [(c.position, c.top1, c.best_ids) for c in plain] == [
        (0, 1, {1, 2}),
        (2, 0, {0, 1, 2, 3}),
        (3, 0, {0}),
    ]
    assert [(c.position, c.top1, c.best_ids) for c in kept] == [(c.position, c.top1, c.best_ids) for c in plain]
    assert plain[1].p_top1 == pytest.approx(0.25, abs=1e-15)
    assert [c.p_top1 for c in kept] == pytest.approx([c.p_top1 for c in plain], rel=1e-12)


def test_rows_of_an_unknown_dtype_are_refused():
    with pytest.raises(InvalidInput, match="float64"):
        to_float32(np.zeros(3))
