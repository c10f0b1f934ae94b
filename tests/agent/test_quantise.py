import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.agent.quantise import is_quantised, layout, parse_scheme, quantisation_config


@given(st.text(max_size=20))
def test_a_scheme_is_read_or_refused_never_guessed(name):
    try:
        scheme = parse_scheme(name)
    except ValueError:
        return
    assert scheme.bits in (4, 8)
    assert name.startswith(f"w{scheme.bits}a")


@pytest.mark.parametrize(
    ("name", "largest", "layout_name", "activations"),
    [
        ("w8a8-int8", 127, "int-quantized", True),
        ("w8a8-fp8", 448, "float-quantized", True),
        ("w8a16", 127, "pack-quantized", False),
        ("w4a16-g64", 7, "pack-quantized", False),
    ],
)
def test_each_scheme_says_how_it_is_stored(name, largest, layout_name, activations):
    scheme = parse_scheme(name)
    config = quantisation_config(scheme)
    assert scheme.largest == largest
    assert config["format"] == config["config_groups"]["group_0"]["format"] == layout_name
    assert (config["config_groups"]["group_0"]["input_activations"] is not None) is activations
    assert config["ignore"] == ["lm_head"]


def test_shapes_of_packed_and_plain_weights():
    assert layout("m.q_proj.weight", [6, 128], parse_scheme("w4a16-g64")) == [
        ("m.q_proj.weight_packed", "I32", [6, 16]),
        ("m.q_proj.weight_scale", "BF16", [6, 2]),
        ("m.q_proj.weight_shape", "I64", [2]),
    ]
    assert layout("m.q_proj.weight", [6, 128], parse_scheme("w8a8-fp8")) == [
        ("m.q_proj.weight", "F8_E4M3", [6, 128]),
        ("m.q_proj.weight_scale", "BF16", [6, 1]),
    ]


@pytest.mark.parametrize(("columns", "scheme"), [(100, "w4a16-g64"), (4, "w4a16"), (6, "w8a16")])
def test_columns_that_do_not_divide_are_refused(columns, scheme):
    with pytest.raises(ValueError, match="do not divide"):
        layout("m.q_proj.weight", [6, columns], parse_scheme(scheme))


@pytest.mark.parametrize(
    ("name", "shape", "answer"),
    [
        ("model.layers.0.self_attn.q_proj.weight", [4, 4], True),
        ("model.layers.0.mlp.down_proj.weight", [4, 4], True),
        ("model.layers.0.self_attn.q_proj.bias", [4], False),
        ("model.embed_tokens.weight", [4, 4], False),
        ("lm_head.weight", [4, 4], False),
        ("model.norm.weight", [4], False),
    ],
)
def test_only_linear_layers_are_quantised(name, shape, answer):
    assert is_quantised(name, shape) is answer
