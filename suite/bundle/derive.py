"""What a bundle claims of its two stacks, computed from locks, receipts and captures, to write it and to verify it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.bundle.schema import Evidence, Factor
from suite.capture.store import Capture
from suite.manifest.diff import Difference, entailed, factors
from suite.manifest.lock import Lock
from suite.stack.effective import all_reduce_routes
from suite.stack.receipt_view import first_rank, kv_scales
from suite.untyped import as_dict, as_list


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """In what candidate and reference differ."""

    factors: tuple[Factor, ...]
    consequent: tuple[Factor, ...]
    causal_claim: bool


def contrast(
    reference: Lock, candidate: Lock, *, reference_receipt: dict[str, Any], candidate_receipt: dict[str, Any]
) -> Contrast:
    """Factors of the locks, and the differences in what the engines really used.

    A difference that a factor entails is consequent. Any other is a factor of its own, whatever the locks say: a KV
    dtype for which the engine silently took another attention backend changed two things.

    Args:
        reference: Lock of the reference.
        candidate: Lock of the candidate.
        reference_receipt: Parsed `receipt.json` of the reference; a hostile one adds a name at most, and harms nothing.
        candidate_receipt: Parsed `receipt.json` of the candidate.
    """
    comparison = factors(reference, candidate)
    named = [_factor(difference) for difference in comparison.factors]
    followed = [_factor(difference) for difference in comparison.consequent]
    if not any(item.key == "hardware" for item in named):
        named += _other_hardware(reference_receipt, candidate_receipt)
    known = {item.key for item in (*named, *followed)}
    causes = {item.key for item in named}
    ours, theirs = effective(reference_receipt), effective(candidate_receipt)
    for key in sorted(ours.keys() | theirs.keys()):
        told = {key, _FIELD_NAMES.get(key, key), _PART_OF.get(key, key)}
        if told & known or ours.get(key) == theirs.get(key):
            continue
        follows = entailed(key, causes)
        difference = Factor(
            key=(f"effective {key}" if follows else _FIELD_NAMES.get(key, key))[:200],
            reference=ours.get(key),
            candidate=theirs.get(key),
            reason=_READ_BACK,
        )
        (followed if follows else named).append(difference)
    causal_claim = len(named) == 1 and not comparison.not_comparable
    return Contrast(
        factors=tuple(sorted(named, key=lambda item: item.key)),
        consequent=tuple(followed),
        causal_claim=causal_claim,
    )


def _other_hardware(reference: dict[str, Any], candidate: dict[str, Any]) -> list[Factor]:
    """The factor that locks do not show: one kind of hardware pinned, and two models of it used.

    A manifest may pin no more than an architecture, and a reference pack comes from another machine.
    """
    ours, theirs = device(reference), device(candidate)
    if ours is None or theirs is None or ours == theirs:
        return []
    return [Factor(key="hardware", reference=ours, candidate=theirs, reason=_READ_BACK)]


_READ_BACK = "read back from the engines"

# Effective settings whose factor goes by another name (see `suite.manifest.diff`).
_FIELD_NAMES = {
    "max_num_batched_tokens": "chunk_size",
    "enable_prefix_caching": "prefix_caching",
    "linear kernels": "linear_kernels",
}
# Said by another name already, where that differs: caches of two dtypes have other scales.
_PART_OF = {"kv_cache_scales": "kv_cache_dtype"}


def device(receipt: dict[str, Any]) -> str | None:
    """What the first rank computed on, for instance `Intel Xeon 6980P (amx)`; None where a receipt does not say."""
    found = as_dict(first_rank(receipt).get("device"))
    name = found.get("name")
    if not isinstance(name, str):
        return None
    # Processors of several kinds bear one name in virtual machines.
    kind = found.get("compute_capability") or found.get("isa") or found.get("architecture")
    return (f"{name} ({kind})" if isinstance(kind, str) else name)[:200]


def effective(receipt: dict[str, Any]) -> dict[str, Any]:
    """Effective settings of a receipt, and what its first rank tells beside them; empty where it holds none.

    KV scales tell caches of one dtype apart; of the communication only what two and more ranks use is told.
    """
    found = dict(as_dict(receipt.get("effective")))
    rank = first_rank(receipt)
    layers = rank.get("linear")
    if isinstance(layers, list):
        names = {
            str(kernel)
            for layer in layers
            if isinstance(layer, dict)
            for kernel in (as_list(layer.get("kernels")) or [layer.get("quant_method")])
        }
        found["linear kernels"] = sorted(names)
    return found | _beside(rank)


def _beside(rank: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    attention, parallel, graphs = rank.get("attention"), rank.get("parallel"), rank.get("graphs")
    if isinstance(attention, list):
        found["kv_cache_scales"] = kv_scales([layer for layer in attention if isinstance(layer, dict)])
    if isinstance(parallel, dict) and (routes := all_reduce_routes(parallel)) is not None:
        found |= {"all_reduce": routes, "nccl": parallel.get("nccl")}
    if isinstance(graphs, dict) and graphs.get("cudagraph_mode") is not None:
        found["cudagraph_mode"] = graphs["cudagraph_mode"]
    return found


def evidence_of(capture: Capture) -> Evidence:
    """The record by which a bundle names the capture that one side of its ledger was computed from."""
    index = capture.index
    return Evidence(
        capture_digest=index.capture_digest,
        start=index.start,
        index_sha256=capture.index_sha256,
        rows_sha256=capture.probes().rows_sha256,
        receipt_sha256=index.receipt_sha256,
        path=index.path,
        codec=index.codec,
        dtype=index.dtype,
        num_rows=index.num_rows,
    )


def _factor(difference: Difference) -> Factor:
    return Factor(**difference.to_json(), reason=difference.reason)
