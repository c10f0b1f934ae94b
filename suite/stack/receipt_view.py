"""A receipt as a person reads it: what ran on which layers, what the cache holds, and on which hardware."""

from __future__ import annotations

from typing import Any

from suite.stack.effective import KvCapacity, all_reduce_routes, kv_label
from suite.untyped import as_dict, as_list

Rows = list[tuple[str, str]]
_GIB = 1 << 30


def first_rank(receipt: dict[str, Any]) -> dict[str, Any]:
    """What the first worker reported; an empty object where a receipt holds no worker."""
    ranks = as_list(receipt.get("ranks"))
    return as_dict(ranks[0]) if ranks else {}


def receipt_rows(receipt: dict[str, Any]) -> Rows:
    """Name and value of everything that the first rank reported; empty for a receipt that holds no rank.

    A receipt may come from a stranger's bundle: whatever has not the form it should have is passed over.
    """
    rank = first_rank(receipt)
    if not rank:
        return []
    rows: Rows = [("vLLM", str(receipt.get("vllm")))] if "vllm" in receipt else []
    rows += [("attention", text) for text in map(_attention, _records(rank, "attention"))]
    rows += [("linear layers", text) for text in map(_linear, _records(rank, "linear"))]
    cache, parallel, graphs, device = (as_dict(rank.get(k)) for k in ("kv_cache", "parallel", "graphs", "device"))
    rows.append(("KV capacity", capacity_of(cache, rank.get("max_model_len")).message))
    runner = str(rank.get("model_runner"))
    rows.append(("model runner", runner))
    rows.append(("graphs", _graphs(graphs)))
    rows.append(("ranks", str(len(receipt["ranks"]))))
    if routes := all_reduce_routes(parallel):
        rows.append(("all-reduce", ", then ".join(routes)))
    if parallel.get("nccl") is not None:
        rows.append(("NCCL", str(parallel["nccl"])))
    return rows + _device(device)


def capacity_of(cache: dict[str, Any], length: object) -> KvCapacity:
    """The two figures of a receipt's `kv_cache`."""
    tokens, concurrency = cache.get("capacity_tokens"), cache.get("max_concurrency")
    return KvCapacity(
        tokens_from_line=tokens if isinstance(tokens, int) else None,
        length_tokens=length if isinstance(length, int) else None,
        concurrency=float(concurrency) if isinstance(concurrency, int | float) else None,
    )


def kv_scales(attention: list[dict[str, Any]]) -> list[str]:
    """The KV caches of a rank's attention layers, each label once, sorted."""
    labels = set()
    for layer in attention:
        dtype = layer.get("kv_cache_dtype")
        if isinstance(dtype, str):
            k, v = layer.get("k_scale"), layer.get("v_scale")
            labels.add(kv_label(dtype, k_scale=_float(k), v_scale=_float(v)))
    return sorted(labels)


def _attention(layer: dict[str, Any]) -> str:
    if layer.get("kv_cache_dtype") is None:
        backend = layer.get("gdn_prefill_backend") or layer.get("backend") or "no backend told"
        return f"{layer.get('count')} x {layer.get('layer')}: {backend}"
    version = layer.get("flash_attention_version")
    cache = kv_label(
        str(layer["kv_cache_dtype"]), k_scale=_float(layer.get("k_scale")), v_scale=_float(layer.get("v_scale"))
    )
    window = layer.get("sliding_window")
    return (
        f"{layer.get('count')} x {layer.get('layer')}: {layer.get('backend')}"
        + (f" {version}" if version is not None else "")
        + f", KV {cache}"
        + (f", window {window}" if window is not None else "")
    )


def _linear(group: dict[str, Any]) -> str:
    kernels = group.get("kernels")
    ran = ", ".join(map(str, kernels)) if isinstance(kernels, list) and kernels else str(group.get("quant_method"))
    scheme = f" ({group['scheme']})" if group.get("scheme") else ""
    return f"{group.get('count')} x {group.get('layer')} from {group.get('first')}: {ran}{scheme}"


def _graphs(graphs: dict[str, Any]) -> str:
    if graphs.get("enforce_eager") is True:
        return "none: eager"
    return f"{graphs.get('cudagraph_mode')}, compilation {graphs.get('compilation_mode')}"


def _device(device: dict[str, Any]) -> Rows:
    memory = device.get("memory_bytes")
    rows: Rows = [
        ("device", str(device.get("name"))),
        ("compute capability", str(device.get("compute_capability") or device.get("architecture"))),
        *([("memory", f"{memory / _GIB:.1f} GiB")] if isinstance(memory, int) else []),
    ]
    for key, name, unit in (
        ("isa", "instructions", ""),
        ("extension", "vLLM extension", ""),
        ("driver", "driver", ""),
        ("cuda", "CUDA", ""),
        ("power_limit_watts", "power limit", " W"),
        ("max_sm_clock_mhz", "highest SM clock", " MHz"),
        ("max_memory_clock_mhz", "highest memory clock", " MHz"),
        ("application_sm_clock_mhz", "application SM clock", " MHz"),
        ("interconnect", "interconnect", ""),
    ):
        if device.get(key) is not None:
            rows.append((name, f"{device[key]}{unit}"))
    return rows


def _records(rank: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = rank.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
