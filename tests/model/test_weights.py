import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from suite.errors import InvalidInput, MissingPrerequisite
from suite.model.weights import diff_weights, group_of
from suite.observer import SilentObserver


def checkpoint(folder, **files):
    folder.mkdir()
    for name, tensors in files.items():
        save_file({key.replace("__", "."): value for key, value in tensors.items()}, folder / f"{name}.safetensors")
    return folder


def compared(a, b):
    return {group.name: group for group in diff_weights(a, b, observer=SilentObserver()).groups}


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model.layers.0.mlp.gate_proj.weight", "language"),
        ("model.language_model.layers.0.linear_attn.A_log", "language"),
        ("model.embed_tokens.weight", "language"),
        ("model.visual.blocks.0.attn.qkv.weight", "vision"),
        ("vision_tower.encoder.layers.1.bias", "vision"),
        ("multi_modal_projector.linear_1.weight", "vision"),
        ("mtp.layers.0.self_attn.q_proj.weight", "MTP"),
        ("mtp.fc.weight", "MTP"),
        ("lm_head.weight", "head"),
        ("model.layers.0.mlp.gate_proj.weight_scale", "scales"),
        ("model.layers.0.mlp.gate_proj.weight_scale_inv", "scales"),
        ("model.layers.0.mlp.gate_proj.weight_scale_2", "scales"),
        ("model.layers.0.mlp.gate_proj.weight_global_scale", "scales"),
        ("model.layers.0.mlp.gate_proj.input_scale", "scales"),
        ("model.layers.0.self_attn.k_scale", "scales"),
        ("model.layers.0.mlp.gate_proj.weight_zero_point", "scales"),
        ("model.layers.0.mlp.gate_proj.qzeros", "scales"),
        ("model.layers.0.mlp.gate_proj.scales", "scales"),
        ("model.layers.0.mlp.gate_proj.g_idx", "scales"),
        ("mtp.layers.0.mlp.up_proj.weight_scale", "scales"),
        ("lm_head.weight_scale", "scales"),
    ],
)
def test_tensors_are_grouped_by_what_they_are(name, group):
    assert group_of(name) == group


def test_every_fate_of_a_tensor(tmp_path):
    a = checkpoint(
        tmp_path / "a",
        one={
            "model__layers__0": ones(4),
            "model__layers__1": ones(4),
            "visual__x": ones(2),
            "lm_head__weight": ones(3),
        },
        two={"mtp__fc": ones(5), "model__gone": ones(9), "model__old_name": np.arange(7.0)},
    )
    b = checkpoint(
        tmp_path / "b",
        all={
            "model__layers__0": ones(4),
            "model__layers__1": ones(4) * 2,
            "visual__x": ones(2),
            "lm_head__weight": ones(3, dtype=np.float16),
            "mtp__fc": ones(5),
            "model__layers__0__weight_scale": ones(1),
            "model__new_name": np.arange(7.0),
        },
    )
    found = compared(a, b)
    assert list(found) == ["language", "vision", "MTP", "head", "scales"]
    language = found["language"]
    assert language.identical == ("model.layers.0",)
    assert language.changed == ("model.layers.1",)
    assert language.only_a == ("model.gone",)
    assert language.renamed == (("model.old_name", "model.new_name"),)
    assert (language.same, language.total) == (2, 4)
    assert found["head"].reshaped == ("lm_head.weight",)
    assert found["scales"].only_b == ("model.layers.0.weight_scale",)
    assert (found["vision"].same, found["vision"].total) == (1, 1)
    assert (found["MTP"].same, found["MTP"].total) == (1, 1)


def test_how_a_checkpoint_is_cut_into_files_does_not_matter(tmp_path):
    a = checkpoint(tmp_path / "a", one={"x": ones(3)}, two={"y": ones(4)})
    b = checkpoint(tmp_path / "b", all={"x": ones(3), "y": ones(4)})
    found = diff_weights(a, b, observer=SilentObserver())
    assert found.groups[0].identical == ("x", "y")
    assert found.hashes_a == found.hashes_b
    assert compared(a / "one.safetensors", a / "one.safetensors")["language"].identical == ("x",)


def raw(path, header, data=b""):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_dtypes_that_numpy_has_not_are_compared_as_bytes(tmp_path):
    entry = {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}
    a = raw(tmp_path / "a.safetensors", {"w": entry, "__metadata__": {"format": "pt"}}, b"abcd")
    b = raw(tmp_path / "b.safetensors", {"w": entry}, b"abce")
    assert compared(a, a)["language"].identical == ("w",)
    assert compared(a, b)["language"].changed == ("w",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{x",
        *(
            struct.pack("<Q", len(text)) + text + b"data"
            for text in (
                b'{"w":1}',
                b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,400]}}',
                b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
                b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
                b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}',
                b'{"w":{"dtype":1,"shape":[1],"data_offsets":[0,4]}}',
                b'{"w":{"dtype":"F32","shape":"x","data_offsets":[0,true]}}',
            )
        ),
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(InvalidInput):
        compared(path, path)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("w") / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(data)) + data)
    try:
        compared(path, path)
    except InvalidInput:
        return


def test_one_name_in_two_files_is_refused(tmp_path):
    folder = checkpoint(tmp_path / "a", one={"x": ones(1)}, two={"x": ones(1)})
    with pytest.raises(InvalidInput, match=r"stands in one\.safetensors too"):
        compared(folder, folder)


def test_nothing_there_is_told(tmp_path):
    with pytest.raises(MissingPrerequisite, match="no safetensors file"):
        compared(tmp_path, tmp_path)
