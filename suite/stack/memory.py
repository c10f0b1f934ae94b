"""How much memory a stack needs, from a model's configuration and the engine settings, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite
from suite.manifest.engine import Engine
from suite.manifest.schema import Hardware
from suite.stack.gpus import find_gpu

GIB = 1 << 30
MIB = 1 << 20

_ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
# Bytes of one stored key or value element; per-token-head scales add one float32 for each head and token.
_KV_BYTES = {"fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_per_token_head": 1.0, "int8_per_token_head": 1.0}
_KV_BYTES |= {"int4_per_token_head": 0.5, "nvfp4": 0.5625, "nvfp4_4over6": 0.5625}

# Context, kernels' workspaces and loaded libraries of one process: measured, not derived. The CPU figure is the
# resident size of an interpreter with torch and vLLM loaded.
_PROCESS_BYTES = {"cuda": 1536 * MIB, "rocm": 1536 * MIB, "cpu": 900 * MIB}
# Activations of one chunk, in units of one residual stream: residual, normalised copy, gate and up, attention output.
_LIVE_COPIES = 4
DEFAULT_GPU_PERCENT = 92
"""vLLM's own default share of a GPU's memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """What a model's `config.json` says about sizes."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    tied_head: bool
    num_attention_layers: int
    """Layers that keep keys and values; the others are linear attention with a state of constant size."""
    gated_attention: bool
    """Whether the query projection also makes an output gate."""
    linear_key_dim: int = 0
    """Key heads × key dimension of a linear-attention layer."""
    linear_value_dim: int = 0
    linear_state_items: int = 0
    """Elements of one linear-attention layer's recurrent state (float32)."""
    linear_value_heads: int = 0

    @property
    def num_parameters(self) -> int:
        """Parameters of the text model, without vision and multi-token-prediction parts and without biases."""
        hidden, inner = self.hidden_size, self.num_attention_heads * self.head_dim
        kv = self.num_kv_heads * self.head_dim
        attention = hidden * inner * (3 if self.gated_attention else 2) + 2 * hidden * kv
        key, value, heads = self.linear_key_dim, self.linear_value_dim, self.linear_value_heads
        linear = hidden * (2 * key + 3 * value + 2 * heads)
        mlp = 3 * hidden * self.intermediate_size
        attention_layers = self.num_attention_layers
        layers = attention_layers * attention + (self.num_layers - attention_layers) * linear + self.num_layers * mlp
        norms = (2 * self.num_layers + 1) * hidden
        return layers + norms + self.vocab_size * hidden * (1 if self.tied_head else 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Bytes on each device (GPU, or the machine's memory), to about a tenth."""

    weights_bytes: int
    """The whole checkpoint, over all ranks."""
    device_weights_bytes: int
    """Weights that stay on one device."""
    host_weights_bytes: int
    """Weights that are kept in host memory for one device."""
    kv_cache_bytes: int
    """Keys, values and recurrent states of one full context, or the size that the settings fix."""
    logits_bytes: int
    """One block of logits in float32, and the ring of rows on their way to disk."""
    working_bytes: int
    """Activations of one chunk and the process itself."""

    @property
    def device_bytes(self) -> int:
        """Everything on one device."""
        return self.device_weights_bytes + self.kv_cache_bytes + self.logits_bytes + self.working_bytes


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a parsed `config.json` that describes the language model: all of it, or its `text_config`."""
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config


def model_shape(config: Mapping[str, Any]) -> ModelShape:
    """Read the sizes from a parsed `config.json` (multimodal: its `text_config`).

    Raises:
        InvalidInput: a size is absent or not a positive whole number.
    """
    text = text_config(config)

    def size(key: str, default: int | None = None) -> int:
        value = text.get(key, default)
        if type(value) is not int or value < 1:
            raise InvalidInput(f"{key} is {value!r}, not a positive whole number", where="config.json")
        return value

    layers, heads = size("num_hidden_layers"), size("num_attention_heads")
    hidden = size("hidden_size")
    shape: dict[str, Any] = {
        "hidden_size": hidden,
        "intermediate_size": size("intermediate_size"),
        "num_layers": layers,
        "num_attention_heads": heads,
        "num_kv_heads": size("num_key_value_heads", heads),
        "head_dim": size("head_dim", hidden // heads),
        "vocab_size": size("vocab_size"),
        "tied_head": bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        "num_attention_layers": _attention_layers(text, layers),
        "gated_attention": bool(text.get("attn_output_gate", False)),
    }
    if shape["num_attention_layers"] < layers and "linear_num_value_heads" in text:
        value_heads, value_dim = size("linear_num_value_heads"), size("linear_value_head_dim")
        key_dim = size("linear_key_head_dim")
        shape["linear_key_dim"] = size("linear_num_key_heads") * key_dim
        shape["linear_value_dim"] = value_heads * value_dim
        shape["linear_value_heads"] = value_heads
        convolution = (2 * shape["linear_key_dim"] + shape["linear_value_dim"]) * size("linear_conv_kernel_dim", 4)
        shape["linear_state_items"] = value_heads * value_dim * key_dim + convolution
    return ModelShape(**shape)


def kv_bytes_per_token(shape: ModelShape, engine: Engine) -> int:
    """Bytes of keys and values that one token of context takes, over all ranks.

    Layers × 2 × KV heads × head dimension × bytes of an element, and the scales of per-token-head formats.
    """
    item = _KV_BYTES.get(
        engine.kv_cache_dtype, float(_ITEM_BYTES.get(engine.kv_cache_dtype, _ITEM_BYTES[engine.dtype]))
    )
    vectors = shape.num_attention_layers * 2 * shape.num_kv_heads
    scales = 4 * vectors if engine.kv_cache_dtype.endswith("per_token_head") else 0
    return int(vectors * shape.head_dim * item) + scales


def estimate(
    shape: ModelShape,
    engine: Engine,
    hardware: Hardware,
    *,
    weights_bytes: int | None = None,
    rows_per_gemm: int = 64,
    environment: Mapping[str, str] | None = None,
) -> MemoryEstimate:
    """Estimate a stack's memory.

    Args:
        shape: From `model_shape`.
        engine: The settings it is captured with.
        hardware: Decides the process's own share, and whether ranks share one memory (CPU).
        weights_bytes: Size of the safetensors files, where known; else parameters × bytes of `dtype`.
        rows_per_gemm: Rows to which the head is applied at once.
        environment: The stack's variables; `VLLM_CPU_KVCACHE_SPACE` (GiB of each rank) fixes the cache's size.
    """
    ranks = engine.tensor_parallel_size
    item = _ITEM_BYTES[engine.dtype]
    weights = weights_bytes if weights_bytes is not None else shape.num_parameters * item
    shard = -(-weights // ranks)
    offloaded = min((engine.cpu_offload_gib or 0) * GIB, shard)
    if engine.kv_cache_memory_mib is not None:
        cache = engine.kv_cache_memory_mib * MIB
    elif hardware.kind == "cpu" and (space := (environment or {}).get("VLLM_CPU_KVCACHE_SPACE", "")).isdigit():
        cache = int(space) * GIB
    else:
        # Fewer KV heads than ranks are repeated, not split.
        split = min(ranks, shape.num_kv_heads)
        states = (shape.num_layers - shape.num_attention_layers) * shape.linear_state_items * 4 * engine.max_num_seqs
        cache = -(-kv_bytes_per_token(shape, engine) * engine.max_model_len // split) + states // ranks
    # Logits of a block, once as computed and once in float32, and four blocks of rows waiting for the writer.
    logits = rows_per_gemm * shape.vocab_size * (item + 4) + 4 * rows_per_gemm * shape.vocab_size * item
    chunk = engine.max_num_batched_tokens
    activations = chunk * (_LIVE_COPIES * shape.hidden_size + 3 * shape.intermediate_size // ranks) * item
    working = activations + _PROCESS_BYTES[hardware.kind]
    # On a CPU all ranks live in the same memory.
    factor = ranks if hardware.kind == "cpu" else 1
    return MemoryEstimate(
        weights_bytes=weights,
        device_weights_bytes=(shard - offloaded) * factor,
        host_weights_bytes=offloaded,
        kv_cache_bytes=cache * factor,
        logits_bytes=logits * factor,
        working_bytes=working * factor,
    )


def device_memory_bytes(hardware: Hardware, engine: Engine, *, host_bytes: int) -> int | None:
    """Memory that the engine may use on one device; None for a GPU of which nothing is known.

    Args:
        hardware: CPU: all of `host_bytes`. GPU: the table's size, cut to the share that the engine takes.
        engine: For `gpu_memory_percent`.
        host_bytes: Memory of the machine that is free for the run.
    """
    if hardware.kind == "cpu":
        return host_bytes
    gpu = find_gpu(hardware.gpu) if hardware.gpu else None
    if gpu is None:
        return None
    return gpu.memory_mib * MIB * (engine.gpu_memory_percent or DEFAULT_GPU_PERCENT) // 100


def require_fit(need: MemoryEstimate, *, available_bytes: int, host_bytes: int | None = None, name: str) -> None:
    """Refuse a stack that does not fit, naming what it needs and the ways out.

    Args:
        need: From `estimate`.
        available_bytes: What one device offers.
        host_bytes: Free memory of the host, for offloaded weights; None to leave that unchecked.
        name: The manifest's name, for the message.

    Raises:
        MissingPrerequisite: it does not fit. Exit code 3.
    """
    if need.device_bytes > available_bytes:
        raise MissingPrerequisite(
            f"needs about {_gib(need.device_bytes)} GiB on each device ({_gib(need.device_weights_bytes)} weights, "
            f"{_gib(need.kv_cache_bytes)} KV cache, {_gib(need.logits_bytes)} logits, {_gib(need.working_bytes)} "
            f"working set); {_gib(available_bytes)} GiB are available",
            where=name,
            hint="use a larger card, more tensor-parallel ranks, engine.cpu_offload_gib, or, for a reference, a "
            "reference pack made elsewhere",
        )
    if host_bytes is not None and need.host_weights_bytes > host_bytes:
        raise MissingPrerequisite(
            f"keeps about {_gib(need.host_weights_bytes)} GiB of weights in host memory; "
            f"{_gib(host_bytes)} GiB are free",
            where=name,
            hint="free host memory, or offload less (engine.cpu_offload_gib)",
        )


def _attention_layers(text: Mapping[str, Any], layers: int) -> int:
    types = text.get("layer_types")
    if isinstance(types, list):
        return sum(kind != "linear_attention" for kind in types)
    interval = text.get("full_attention_interval")
    return layers // interval if type(interval) is int and interval > 1 else layers


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f}"
