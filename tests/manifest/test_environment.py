import pytest

from suite.manifest.environment import refusal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_CPU_KVCACHE_SPACE", "1"),
        ("NCCL_ALGO", "Ring"),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("ONEDNN_MAX_CPU_ISA", "AVX2"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("VLLM_TRITON_FORCE_FIRST_CONFIG", "1"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    ],
)
def test_allowed(name: str, value: str) -> None:
    assert refusal(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("LD_PRELOAD", "x.so", "not an allowed variable"),
        ("PYTHONPATH", "x", "not an allowed variable"),
        ("PATH", "x", "not an allowed variable"),
        ("HF_TOKEN", "x", "secret"),
        ("VLLM_API_KEY", "x", "secret"),
        ("NCCL_SECRET", "x", "secret"),
        ("VLLM_PASSWORD", "x", "secret"),
        ("VLLM_PLUGINS", "x", "loads code"),
        ("VLLM_ATTENTION_BACKEND", "TRITON_ATTN", "engine.attention_backend"),
        ("OMP_NUM_THREADS", "1", "hardware.threads"),
        ("VLLM_USE_V2_MODEL_RUNNER", "1", "engine.model_runner"),
        ("vllm_x", "1", "not an environment variable"),
        ("VLLM_X=1", "1", "not an environment variable"),
        ("VLLM_X", "hf_" + "a" * 30, "looks like a secret"),
        ("VLLM_X", "sk-" + "a" * 30, "looks like a secret"),
        ("VLLM_X", "ghp_" + "a" * 36, "looks like a secret"),
        ("VLLM_X", "AKIA" + "A" * 16, "looks like a secret"),
        ("VLLM_X", "eyJhbGciOi.eyJzdWIiOi.abc", "looks like a secret"),
        ("VLLM_X", "https://user:pass@host", "looks like a secret"),
        ("VLLM_X", "-----BEGIN KEY", "looks like a secret"),
        ("VLLM_X", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "looks like a secret"),
        ("VLLM_CACHE_ROOT", "/home/someone/.cache", "path"),
        ("VLLM_CACHE_ROOT", "C:\\Users\\someone", "path"),
        ("VLLM_X", "a" * 20 + " " + "b" * 300, "longer"),
        ("VLLM_X", "a\nb", "printable ASCII"),
    ],
)
def test_refused(name: str, value: str, why: str) -> None:
    reason = refusal(name, value)
    assert reason is not None
    assert why in reason
