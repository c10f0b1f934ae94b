"""Which environment variables a manifest may set: names that change kernels, and never a secret or a path."""

from __future__ import annotations

import re

_PREFIXES = ("VLLM_", "NCCL_", "TRITON_", "TORCH_", "TORCHINDUCTOR_", "FLASHINFER_", "ONEDNN_", "DNNL_", "KMP_")
_NAMES = frozenset(
    {
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_DEVICE_ORDER",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "MKL_CBWR",
        "MKL_NUM_THREADS",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
    }
)
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,79}\Z")

# Allowed by prefix, refused all the same.
_REFUSED = {
    "VLLM_PLUGINS": "it loads code that the lock does not name",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "it lets messages run code",
    "VLLM_SERVER_DEV_MODE": "it opens endpoints that a measured stack must not have",
    "VLLM_USE_MODELSCOPE": "models come from where `model` says",
    "VLLM_ATTENTION_BACKEND": "current versions ignore it silently; set engine.attention_backend",
    "VLLM_USE_V2_MODEL_RUNNER": "set engine.model_runner, so that it is read back and compared",
    "VLLM_CPU_OMP_THREADS_BIND": "set hardware.threads; which cores a machine has is not part of a stack",
    "OMP_NUM_THREADS": "set hardware.threads, so that it is read back and compared",
}

_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSW(OR)?D|CREDENTIALS?|AUTH|COOKIE)(_|\Z)")
_SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}"
    r"|gh[opusr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{8,}"
    r"|AKIA[0-9A-Z]{12,}|ASIA[0-9A-Z]{12,}"
    r"|AIza[0-9A-Za-z_-]{20,}"
    r"|nvapi-[\w-]{16,}"
    r"|eyJ[\w-]{4,}\.[\w-]{4,}"
    r"|-----BEGIN"
    r"|[A-Za-z][A-Za-z0-9+.-]*://[^\s/]*@"
    r"|(?i:bearer\s+\S{8,})"
)
# A value of a tuning variable is short and has words or figures in it; 32 and more characters without any separator
# are a key of some kind.
_OPAQUE = re.compile(r"[A-Za-z0-9+=]{32,}\Z")
MAX_VALUE_CHARACTERS = 256


def refusal(name: str, value: str) -> str | None:
    """Why `NAME=value` may not stand in a manifest, or None if it may."""
    if not _NAME.match(name):
        return "not an environment variable's name (capitals, digits and _)"
    if _SECRET_NAME.search(name):
        return "the name looks like a secret's; a manifest is public, so secrets never stand in it"
    if name in _REFUSED:
        return _REFUSED[name]
    if name not in _NAMES and not name.startswith(_PREFIXES):
        return f"not an allowed variable (allowed: {', '.join(_PREFIXES)}… and {', '.join(sorted(_NAMES))})"
    if _SECRET_VALUE.search(value) or _OPAQUE.match(value):
        return "the value looks like a secret; a manifest is public, so secrets never stand in it"
    if len(value) > MAX_VALUE_CHARACTERS:
        return f"the value is longer than {MAX_VALUE_CHARACTERS} characters"
    if "/" in value or "\\" in value:
        return "the value looks like a path; a path of one machine has no place in a stack"
    if not value.isprintable() or not value.isascii():
        return "the value holds characters other than printable ASCII"
    return None
