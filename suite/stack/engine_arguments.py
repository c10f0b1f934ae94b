"""From a lock to what the engine is started with: keyword arguments, environment, and what must be read back."""

from __future__ import annotations

from typing import Any, Protocol

from suite.manifest.engine import Engine
from suite.manifest.lock import Lock
from suite.manifest.schema import Hardware

GIB = 1 << 30
MIB = 1 << 20
SHARED_CARD = 0.02
"""`gpu_memory_utilization` of a stack whose cache size is fixed."""

# Settings whose name and value vLLM takes as they are.
_SAME = (
    "tensor_parallel_size", "pipeline_parallel_size", "enforce_eager", "enable_prefix_caching",
    "max_num_batched_tokens", "max_model_len", "max_num_seqs", "dtype", "quantization", "gdn_prefill_backend",
    "linear_backend", "block_size", "disable_custom_all_reduce", "language_model_only", "kv_sharing_fast_prefill",
    "seed", "load_format",
)  # fmt: skip
_READ_BACK = (
    "attention_backend", "tensor_parallel_size", "enforce_eager", "enable_prefix_caching",
    "max_num_batched_tokens", "max_model_len", "max_num_seqs", "dtype", "model_runner", "gdn_prefill_backend",
    "flash_attn_version",
)  # fmt: skip


class Settings(Protocol):
    """What an engine is started from: a lock, a manifest, or either of them as it will be served."""

    @property
    def engine(self) -> Engine:
        """The settings."""

    @property
    def hardware(self) -> Hardware:
        """What it runs on."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables that it sets."""


def engine_arguments(stack: Settings) -> dict[str, Any]:
    """Keyword arguments of `vllm.LLM`, which are also the names of vLLM's command line flags."""
    engine = stack.engine
    arguments: dict[str, Any] = {name: getattr(engine, name) for name in _SAME if getattr(engine, name) is not None}
    # Named even where it is the model's own dtype: under `auto` a checkpoint may bring an FP8 cache of its own.
    arguments["kv_cache_dtype"] = engine.kv_cache_dtype
    if engine.flash_attn_version is not None:
        arguments["attention_config"] = {
            "backend": engine.attention_backend,
            "flash_attn_version": engine.flash_attn_version,
        }
    elif engine.attention_backend is not None:
        arguments["attention_backend"] = engine.attention_backend
    if engine.cudagraph_mode is not None:
        arguments["compilation_config"] = {"cudagraph_mode": engine.cudagraph_mode}
    if engine.speculative is not None:
        draft = engine.speculative.model_dump(mode="json", exclude_none=True)
        if repository := draft.pop("repository", None):
            draft["model"] = repository
        arguments["speculative_config"] = draft
    if engine.kv_cache_memory_mib is not None:
        arguments["kv_cache_memory_bytes"] = engine.kv_cache_memory_mib * MIB
        # The cache has its size; the share would only refuse a start beside other processes on the card.
        if stack.hardware.kind != "cpu":
            arguments["gpu_memory_utilization"] = SHARED_CARD
    if engine.gpu_memory_percent is not None:
        arguments["gpu_memory_utilization"] = engine.gpu_memory_percent / 100
    if engine.cpu_offload_gib is not None:
        arguments["cpu_offload_gb"] = engine.cpu_offload_gib
    return arguments | dict(engine.extra)


def stack_environment(stack: Settings) -> dict[str, str]:
    """Variables of the stack: its own, and those that its settings stand for."""
    environment: dict[str, str] = {}
    if stack.hardware.kind == "cpu":
        # Bound threads would put two stacks that run side by side on one core; binding changes no bit.
        environment |= {"OMP_NUM_THREADS": str(stack.hardware.threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    else:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if stack.engine.model_runner is not None:
        environment["VLLM_USE_V2_MODEL_RUNNER"] = "1" if stack.engine.model_runner == "v2" else "0"
    return environment | stack.environment


def expected_settings(lock: Lock) -> dict[str, Any]:
    """Requested settings under the names of a receipt's `effective`; the agent stops where one was not taken."""
    engine = lock.engine
    expected = {name: getattr(engine, name) for name in _READ_BACK if getattr(engine, name) is not None}
    expected["kv_cache_dtype"] = engine.dtype if engine.kv_cache_dtype == "auto" else engine.kv_cache_dtype
    expected["device_kind"] = lock.hardware.kind
    expected["architecture"] = lock.hardware.architecture
    if lock.hardware.isa is not None:
        expected["isa"] = lock.hardware.isa
    if lock.hardware.threads is not None:
        expected["threads"] = lock.hardware.threads
    return expected
