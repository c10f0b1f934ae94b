"""Requested against effective settings: what a receipt says, under the names that a manifest uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from suite.agent.events import AgentFailure


def effective_settings(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The receipts of all ranks reduced to the settings that a manifest can request.

    A value that differs between layers or ranks is a sorted list, so it never equals a single requested value by
    accident.
    """
    each = [_of_rank(receipt) for receipt in ranks]
    return {name: _same([settings[name] for settings in each]) for name in each[0]}


def mismatches(expected: dict[str, Any], effective: dict[str, Any]) -> list[str]:
    """Each requested setting that the engine did not take, as a sentence."""
    return [
        f"{name}: requested {wanted!r}, effective {effective.get(name)!r}"
        for name, wanted in sorted(expected.items())
        if wanted is not None and effective.get(name) != wanted
    ]


def require_effective(expected: dict[str, Any], effective: dict[str, Any], *, asking: str, hint: str) -> None:
    """See that the engine took every requested setting.

    Args:
        expected: Requested settings by their receipt name; None is no request.
        effective: What `effective_settings` gave.
        asking: What requested them, for the message.
        hint: What to do.

    Raises:
        AgentFailure: it did not (`effective_mismatch`).
    """
    if differing := mismatches(expected, effective):
        message = f"the engine does not use what {asking} asks for: " + "; ".join(differing)
        raise AgentFailure("effective_mismatch", message, hint)


def _of_rank(receipt: dict[str, Any]) -> dict[str, Any]:
    attention = [layer for layer in receipt["attention"] if layer["kv_cache_dtype"] is not None]
    runner = receipt["model_runner"]
    return {
        "attention_backend": _single(layer["backend"] for layer in attention),
        "kv_cache_dtype": _single(
            receipt["dtype"] if layer["kv_cache_dtype"] == "auto" else layer["kv_cache_dtype"] for layer in attention
        ),
        "flash_attn_version": _whole(_single(layer.get("flash_attention_version") for layer in attention)),
        "gdn_prefill_backend": _single(layer["gdn_prefill_backend"] for layer in receipt["attention"]),
        "dtype": receipt["dtype"],
        "quantization": receipt["quantization"],
        "tensor_parallel_size": receipt["parallel"]["tensor_parallel_size"],
        "enforce_eager": receipt["graphs"]["enforce_eager"],
        "enable_prefix_caching": receipt["kv_cache"]["prefix_caching"],
        "max_num_batched_tokens": receipt["scheduler"]["max_num_batched_tokens"],
        "max_num_seqs": receipt["scheduler"]["max_num_seqs"],
        "max_model_len": receipt["max_model_len"],
        "model_runner": "v2" if ".gpu.model_runner" in runner or ".cpu.model_runner" in runner else "v1",
        "threads": receipt["torch"]["threads"] if receipt["device"]["kind"] == "cpu" else None,
        "device_kind": receipt["device"]["kind"],
        "architecture": receipt["device"].get("compute_capability") or receipt["device"].get("architecture"),
        "isa": receipt["device"].get("isa"),
    }


def _single(values: Iterable[Any]) -> Any:
    found = sorted({str(value) for value in values if value is not None})
    return found[0] if len(found) == 1 else (found or None)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _same(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else sorted({str(value) for value in values})
