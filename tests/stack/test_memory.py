from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput, MissingPrerequisite
from suite.manifest.load import load_manifest
from suite.manifest.schema import Manifest
from suite.stack.memory import (
    GIB,
    MIB,
    MemoryEstimate,
    device_memory_bytes,
    estimate,
    kv_bytes_per_token,
    model_shape,
    require_fit,
)
from tests.manifest.samples import CPU, CUDA, ROOT, manifest

SMOLLM2 = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
QWEN = {
    "tie_word_embeddings": False,
    "text_config": {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "full_attention_interval": 4,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "attn_output_gate": True,
        "vocab_size": 248320,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    },
}


def test_parameters_of_real_models() -> None:
    # SmolLM2-135M has 134,515,008 parameters.
    assert model_shape(SMOLLM2).num_parameters == 134_515_008
    # Qwen3.8-27B indexes 55,562,855,904 bytes in BF16, of which the vision tower and the 849,400,392 bytes of the
    # multi-token-prediction layer are not part of the text model.
    text_bytes = model_shape(QWEN).num_parameters * 2
    assert 0.5e9 < 55_562_855_904 - 849_400_392 - text_bytes < 1.2e9


def test_hybrid_models_keep_keys_in_some_layers_only(tmp_path: Path) -> None:
    shape = model_shape(QWEN)
    assert shape.num_attention_layers == 16
    assert kv_bytes_per_token(shape, manifest(tmp_path, CUDA).engine) == 65_536
    types = ["linear_attention"] * 3 + ["full_attention"]
    assert model_shape(QWEN["text_config"] | {"num_hidden_layers": 4, "layer_types": types}).num_attention_layers == 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("dtype", "size_bytes"),
    [
        ("auto", 65_536),
        ("bfloat16", 65_536),
        ("fp8_e4m3", 32_768),
        ("int8_per_token_head", 32_768 + 4 * 128),
        ("int4_per_token_head", 16_384 + 4 * 128),
    ],
)
def test_cache_bytes_of_a_token(tmp_path: Path, dtype: str, size_bytes: int) -> None:
    engine = manifest(tmp_path, CUDA, engine__kv_cache_dtype=dtype).engine
    assert kv_bytes_per_token(model_shape(QWEN), engine) == size_bytes


def needs(loaded: Manifest, config: dict[str, Any] = QWEN, **more: Any) -> MemoryEstimate:
    return estimate(model_shape(config), loaded.engine, loaded.hardware, environment=loaded.environment, **more)


def fits(loaded: Manifest, host_bytes: int = 64 * GIB, **more: Any) -> bool:
    available = device_memory_bytes(loaded.hardware, loaded.engine, host_bytes=host_bytes)
    assert available is not None
    try:
        require_fit(needs(loaded, **more), available_bytes=available, host_bytes=host_bytes, name=loaded.name)
    except MissingPrerequisite:
        return False
    return True


def shipped(name: str) -> Manifest:
    return load_manifest(ROOT / f"manifests/{name}.yaml")


def test_shipped_references_fit_their_cards() -> None:
    assert fits(shipped("reference-qwen3.8-27b-32gb"))
    assert fits(shipped("reference-qwen3.8-27b-96gb"))
    assert fits(shipped("reference-qwen3.8-27b-96gb-100k"))
    assert fits(shipped("rtx-pro-6000/triton-bf16"))
    assert fits(shipped("h200/triton-bf16"))


def test_shipped_checkpoints_fit_32_gb_and_bf16_does_not(tmp_path: Path) -> None:
    assert fits(shipped("rtx5090-awq-g32"), weights_bytes=21_018_000_000)
    assert fits(shipped("rtx5090-awq-g32-100k"), weights_bytes=21_018_000_000)
    assert fits(shipped("rtx5090/nvfp4-unsloth"), weights_bytes=23_417_592_488)
    whole = manifest(tmp_path, CUDA, engine__max_model_len=40_960)
    assert not fits(whole)


def test_offload_needs_host_memory() -> None:
    loaded = shipped("reference-qwen3.8-27b-32gb")
    assert needs(loaded).host_weights_bytes == 30 * GIB
    assert not fits(loaded, host_bytes=16 * GIB)


def test_demo_fits_a_small_machine() -> None:
    loaded = shipped("cpu-bf16")
    need = needs(loaded, SMOLLM2)
    assert need.kv_cache_bytes == GIB
    assert 2 * GIB < need.device_bytes < 4 * GIB
    assert needs(shipped("cpu-tp3"), SMOLLM2).kv_cache_bytes == 3 * GIB


def test_ranks_share_weights_and_cache(tmp_path: Path) -> None:
    one = needs(manifest(tmp_path, CUDA))
    two = needs(manifest(tmp_path, CUDA, engine__tensor_parallel_size=2, hardware__count=2))
    assert two.device_weights_bytes == one.device_weights_bytes // 2
    assert two.kv_cache_bytes == pytest.approx(one.kv_cache_bytes / 2, rel=0.01)


def test_fixed_cache_size(tmp_path: Path) -> None:
    assert needs(manifest(tmp_path, CUDA, engine__kv_cache_memory_mib=700)).kv_cache_bytes == 700 * MIB


def test_refusal_names_numbers_and_ways_out(tmp_path: Path) -> None:
    need = needs(manifest(tmp_path, CUDA))
    with pytest.raises(
        MissingPrerequisite, match=r"(?s)sample: needs about 5\d\.\d GiB.*8\.0 GiB are.*reference pack"
    ) as error:
        require_fit(need, available_bytes=8 * GIB, name="sample")
    assert error.value.exit_code == 3


def test_device_memory(tmp_path: Path) -> None:
    gpu = manifest(tmp_path, CUDA, engine__gpu_memory_percent=50)
    assert device_memory_bytes(gpu.hardware, gpu.engine, host_bytes=0) == 32_153 * MIB // 2
    unknown = manifest(tmp_path, CUDA, hardware__gpu=None)
    assert device_memory_bytes(unknown.hardware, unknown.engine, host_bytes=0) is None
    cpu = manifest(tmp_path, CPU)
    assert device_memory_bytes(cpu.hardware, cpu.engine, host_bytes=5) == 5


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": None}, {"num_hidden_layers": 0}, {"vocab_size": "many"}, {"vocab_size": True}, {"head_dim": -1}],
)
def test_bad_configuration(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="not a positive whole number"):
        model_shape(SMOLLM2 | changes)


@given(st.integers(2, 200_000), st.integers(1, 20_000))
def test_more_context_and_larger_chunks_never_need_less(context: int, chunk: int) -> None:
    loaded = shipped("reference-qwen3.8-27b-96gb")
    engine = loaded.engine.model_copy(update={"max_model_len": context, "max_num_batched_tokens": chunk})
    larger = engine.model_copy(update={"max_model_len": context + 1000, "max_num_batched_tokens": chunk + 100})
    shape = model_shape(QWEN)
    before = estimate(shape, engine, loaded.hardware)
    after = estimate(shape, larger, loaded.hardware)
    assert before.device_bytes < after.device_bytes
