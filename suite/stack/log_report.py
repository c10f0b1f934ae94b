"""What an engine's log tells of one start, as a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from suite.stack.effective import KvCapacity, kv_label

_GDN_WORDS = {
    "triton/fla": "triton",
    "flashinfer": "flashinfer",
    "cutedsl": "cutedsl",
    "aiter flydsl": "aiter_flydsl",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearKernel:
    """One kernel that was chosen for linear layers."""

    kernel: str
    layers: str
    """What vLLM named it for: a quantisation method, a scheme, or a kind of product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """One attention backend that was chosen; drafters and vision parts log theirs as well."""

    name: str
    candidates: tuple[str, ...]
    """What the engine chose from; empty where the backend was asked for by name."""


@dataclass(kw_only=True, slots=True)
class LogReport:
    """What a log tells of one start. None, or empty: not told."""

    vllm_version: str | None = None
    model: str | None = None
    architecture: str | None = None
    requested: dict[str, Any] = field(default_factory=dict)
    """Arguments that the log says were not left to their defaults."""
    attention: list[Backend] = field(default_factory=list)
    """In the order of the log; the language model's is the first."""
    flash_attention_version: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    k_scale: float | None = None
    v_scale: float | None = None
    capacity: KvCapacity = field(
        default_factory=lambda: KvCapacity(tokens_from_line=None, length_tokens=None, concurrency=None)
    )
    linear: list[LinearKernel] = field(default_factory=list)
    fp4: str | None = None
    """Which FP4 kernel ran. The log's own words about the hardware are not repeated: on SM120 they are false."""
    gdn_prefill_kernel: str | None = None
    all_reduce: list[str] = field(default_factory=list)
    """Routes in the order in which they are tried."""
    all_reduce_disabled: list[str] = field(default_factory=list)
    """Routes that were taken out, with vLLM's reason."""
    nccl: str | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    model_runner: str | None = None
    enforce_eager: bool | None = None
    cudagraph_mode: str | None = None
    graphs_captured: bool | None = None
    enable_prefix_caching: bool | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    sampling_defaults: dict[str, Any] = field(default_factory=dict)
    """What a request without sampling parameters gets: from the checkpoint's generation_config."""
    gpus: list[str] = field(default_factory=list)
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None
    power_limit_watts: float | None = None
    interconnect: str | None = None

    @property
    def attention_backend(self) -> str | None:
        """The language model's."""
        return self.attention[0].name if self.attention else None

    @property
    def kv_label(self) -> str:
        """The KV cache with its scales, for a person."""
        return kv_label(self.kv_cache_dtype, k_scale=self.k_scale, v_scale=self.v_scale)

    @property
    def greedy_by_default(self) -> bool | None:
        """Whether a request without a temperature is greedy; None where the log does not say."""
        if not self.sampling_defaults:
            return None
        temperature = self.sampling_defaults.get("temperature", 1.0)
        return isinstance(temperature, int | float) and temperature == 0

    def effective(self) -> dict[str, Any]:
        """The settings under the names that receipts and manifests use; only those that the log tells."""
        found = {
            "attention_backend": self.attention_backend,
            "flash_attn_version": self.flash_attention_version,
            "kv_cache_dtype": self.kv_cache_dtype,
            "dtype": self.dtype,
            "quantization": self.quantization,
            "gdn_prefill_backend": _gdn_word(self.gdn_prefill_kernel),
            "tensor_parallel_size": self.tensor_parallel_size,
            "enforce_eager": self.enforce_eager,
            "enable_prefix_caching": self.enable_prefix_caching,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_model_len": self.max_model_len,
            "model_runner": self.model_runner,
        }
        return {name: value for name, value in found.items() if value is not None}

    def not_taken(self) -> list[str]:
        """Requested settings that the same log says were not taken, as sentences."""
        effective = self.effective()
        return [
            f"{name}: requested {wanted!r}, effective {effective[name]!r}"
            for name, wanted in sorted(self.requested.items())
            if name in effective and wanted not in (None, "auto") and not _same(name, wanted, effective[name])
        ]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "schema_version": 1,
            "vllm_version": self.vllm_version,
            "model": self.model,
            "architecture": self.architecture,
            "requested": self.requested,
            "effective": self.effective(),
            "not_taken": self.not_taken(),
            "attention": [{"name": b.name, "candidates": list(b.candidates)} for b in self.attention],
            "flash_attention_version": self.flash_attention_version,
            "kv_cache": {
                "dtype": self.kv_cache_dtype,
                "k_scale": self.k_scale,
                "v_scale": self.v_scale,
                "label": self.kv_label,
                "capacity": self.capacity.to_json(),
            },
            "linear": [{"kernel": k.kernel, "layers": k.layers} for k in self.linear],
            "fp4": self.fp4,
            "gdn_prefill_kernel": self.gdn_prefill_kernel,
            "all_reduce": {"routes": self.all_reduce, "disabled": self.all_reduce_disabled, "nccl": self.nccl},
            "model_runner": self.model_runner,
            "graphs": {
                "enforce_eager": self.enforce_eager,
                "cudagraph_mode": self.cudagraph_mode,
                "captured": self.graphs_captured,
            },
            "sampling_defaults": self.sampling_defaults,
            "greedy_by_default": self.greedy_by_default,
            "hardware": {
                "gpus": self.gpus,
                "compute_capability": self.compute_capability,
                "driver": self.driver,
                "cuda": self.cuda,
                "power_limit_watts": self.power_limit_watts,
                "interconnect": self.interconnect,
            },
        }


def _gdn_word(kernel: str | None) -> str | None:
    """The kernel under the name that `--gdn-prefill-backend` gives it."""
    return None if kernel is None else _GDN_WORDS.get(kernel.lower(), kernel.lower())


def _same(name: str, wanted: Any, found: Any) -> bool:
    # One dtype under two names: vLLM's `fp8` is E4M3.
    if name == "kv_cache_dtype" and {wanted, found} <= {"fp8", "fp8_e4m3"}:
        return True
    return bool(wanted == found)
