"""The `capabilities` command: which attention backend takes which KV cache and head size, by the engine's own rules.

No GPU is needed: the rules are asked under a compute capability that is given, by a platform that claims to have it.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from suite.agent.engine import vllm_version
from suite.agent.events import AgentFailure, Events, write_json
from suite.agent.lifetime import uncollected

SCHEMA_VERSION = 1
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
# Made for one model family, or for the platform of another vendor: they answer no question about this stack.
_NOT_ASKED = ("ROCM", "XPU", "HPU", "TPU", "CUSTOM", "NO_ATTENTION", "TORCH_SDPA", "ZENTORCH", "CPU")


def run(request: dict[str, Any], events: Events) -> None:
    """Write `capabilities.json` into `request["out"]`.

    The request names `compute_capability` (`major.minor`), `head_sizes` and `dtype`.

    Raises:
        AgentFailure: this vLLM is not built for CUDA, or its rules cannot be asked (`engine`).
    """
    events.phase("ask vLLM for its rules")
    with uncollected():
        found = evaluate(request["compute_capability"], head_sizes=request["head_sizes"], dtype=request["dtype"])
    write_json(Path(request["out"]) / "capabilities.json", found)


def evaluate(compute_capability: str, *, head_sizes: Sequence[int], dtype: str) -> dict[str, Any]:
    """The answers as JSON values.

    Args:
        compute_capability: `major.minor`. It must be the first time that this process looks for its platform.
        head_sizes: Sizes of an attention head.
        dtype: The model's: `bfloat16`, `float16` or `float32`.

    Raises:
        AgentFailure: see `run`.
    """
    major, minor = (int(part) for part in compute_capability.split("."))
    platform = _pretend(major, minor)
    from vllm.config.cache import CacheDType
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    kv_dtypes = [str(name) for name in typing.get_args(CacheDType)]
    backends = [b for b in AttentionBackendEnum if not b.name.startswith(_NOT_ASKED) and "MLA" not in b.name]
    capability = platform.get_device_capability()
    grid = list(itertools.product(kv_dtypes, head_sizes))
    return {
        "schema_version": SCHEMA_VERSION,
        "vllm": vllm_version(),
        "compute_capability": compute_capability,
        "dtype": dtype,
        "head_sizes": list(head_sizes),
        "kv_cache_dtypes": kv_dtypes,
        "backends": [_backend(b, grid, capability, _DTYPES[dtype]) for b in backends],
        "choices": [
            {
                "kv_cache_dtype": kv,
                "head_size": size,
                "backends": _choice(platform, kv, size, _DTYPES[dtype]),
            }
            for kv, size in grid
        ],
    }


def _pretend(major: int, minor: int) -> Any:
    """Make this process believe that it has one GPU of that capability; returns the platform."""
    from vllm import platforms

    try:
        from vllm.platforms.cuda import NonNvmlCudaPlatform
    except (ImportError, OSError) as error:
        raise AgentFailure(
            "engine", f"this vLLM is not built for CUDA: {error}", "ask an image that is, for instance vllm/vllm-openai"
        ) from error
    from vllm.platforms.interface import DeviceCapability

    class Pretended(NonNvmlCudaPlatform):  # type: ignore[misc]  # a class of the stack
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(major, minor)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return f"a GPU of capability {major}.{minor}"

        @classmethod
        def device_count(cls) -> int:
            return 1

    pretended = Pretended()
    platforms.current_platform = pretended
    # Kernels that were compiled for it or not are found out through torch.
    torch.cuda.get_device_capability = lambda device=None: (major, minor)
    return pretended


def _backend(backend: Any, grid: list[tuple[str, int]], capability: Any, dtype: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": backend.name, "unavailable": None, "refused": []}
    try:
        kind = backend.get_class()
    except Exception as error:  # noqa: BLE001 - whatever stops its import is the reason that is reported
        return found | {"unavailable": f"{type(error).__name__}: {error}"[:300]}
    for kv, size in grid:
        reasons = _reasons(kind, kv, size, capability, dtype)
        if reasons:
            found["refused"].append({"kv_cache_dtype": kv, "head_size": size, "reasons": reasons})
    if backend.name == "FLASH_ATTN":
        found["flash_attention_version"] = _flash_attention_version()
    return found


def _reasons(kind: Any, kv: str, size: int, capability: Any, dtype: Any) -> list[str]:
    """Why the engine would refuse this combination, in its own words; empty if it would not."""
    given = {"head_size": size, "dtype": dtype, "kv_cache_dtype": kv, "device_capability": capability}
    arguments = {}
    for name, parameter in inspect.signature(kind.validate_configuration).parameters.items():
        if name in given:
            arguments[name] = given[name]
        elif parameter.default is inspect.Parameter.empty:
            arguments[name] = _plain(name)
    try:
        return [str(reason) for reason in kind.validate_configuration(**arguments)]
    except Exception as error:  # noqa: BLE001 - a rule that breaks is a reason not to start
        return [f"its own check failed: {type(error).__name__}: {error}"[:300]]


def _plain(name: str) -> Any:
    """The value of a question that is not asked here: a decoder without sinks, sliding windows and the like."""
    if name == "attn_type":
        return "decoder"
    return None if name == "block_size" else False


def _choice(platform: Any, kv: str, size: int, dtype: Any) -> list[str]:
    """The backends that the engine would take by itself, the first one first."""
    from vllm.v1.attention.selector import AttentionSelectorConfig

    given = {"head_size": size, "dtype": dtype, "kv_cache_dtype": kv}
    fields = {
        name: given.get(name, _plain(name))
        for name in AttentionSelectorConfig._fields
        if name in given or name not in AttentionSelectorConfig._field_defaults
    }
    try:
        valid, _ = platform.get_valid_backends(platform.get_device_capability(), AttentionSelectorConfig(**fields))
    except Exception:  # noqa: BLE001 - older and newer versions choose in another way; the rules above stand
        return []
    names = []
    for candidate in valid:
        backend = getattr(candidate, "backend", None) or candidate[0]
        names.append(str(getattr(backend, "name", backend)))
    return names


def _flash_attention_version() -> int | None:
    try:
        if "vllm.v1.attention.backends.fa_utils" in sys.modules:
            from vllm.v1.attention.backends.fa_utils import get_flash_attn_version
        else:
            from vllm.attention.utils.fa_utils import get_flash_attn_version
        version = get_flash_attn_version()
    except Exception:  # noqa: BLE001 - without its kernels there is no version
        return None
    return int(version) if version is not None else None
