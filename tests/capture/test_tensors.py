import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from suite.capture.tensors import open_tensors, write_tensors
from suite.errors import InvalidInput, VerificationFailed


def test_what_is_written_is_read_back_and_the_public_reader_agrees(tmp_path):
    tensors = {
        "a": np.arange(6, dtype=np.int64).reshape(3, 2),
        "b": np.array([0.5, -1.0, 3.0], dtype=np.float16),
        "c": np.array([[1], [2]], dtype=np.uint8),
    }
    write_tensors(tmp_path / "t.safetensors", tensors, metadata={"k": "v"})
    file = open_tensors(tmp_path / "t.safetensors")
    public = load_file(tmp_path / "t.safetensors")
    for name, array in tensors.items():
        np.testing.assert_array_equal(file.read(name), array)
        np.testing.assert_array_equal(public[name], array)
    np.testing.assert_array_equal(file.read("a", 1, 3), tensors["a"][1:3])


def test_uint16_is_bf16(tmp_path):
    write_tensors(tmp_path / "t.safetensors", {"x": np.array([0x3F80], dtype=np.uint16)})
    assert open_tensors(tmp_path / "t.safetensors").tensors["x"].dtype == "BF16"


def test_another_dtype_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="complex64"):
        write_tensors(tmp_path / "t.safetensors", {"x": np.zeros(2, dtype=np.complex64)})


@given(cut=st.integers(min_value=0, max_value=400))
def test_a_file_cut_anywhere_is_refused(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "t.safetensors"
    write_tensors(path, {"x": np.arange(32, dtype=np.int64), "y": np.zeros(8, dtype=np.float32)})
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data) - 1)])
    with pytest.raises(VerificationFailed):
        open_tensors(path)


@pytest.mark.parametrize(
    "header",
    [
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}},
        {"x": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
        {"x": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [1]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
        {"x": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}},
        {
            "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "y": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        },
        {"x": {"dtype": "F32", "shape": [1 << 40] * 9, "data_offsets": [0, 4]}},
        ["x"],
    ],
)
def test_a_lying_header_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "t").write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    with pytest.raises(VerificationFailed):
        open_tensors(tmp_path / "t")


def test_a_file_that_shrinks_after_it_was_opened_is_noticed(tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"x": np.arange(32, dtype=np.int64)})
    file = open_tensors(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(VerificationFailed, match="ends inside"):
        file.read("x")
