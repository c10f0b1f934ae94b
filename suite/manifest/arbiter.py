"""When a float32 stack may say at each flip whose top-1 is also its own."""

from __future__ import annotations

from suite.errors import InvalidInput
from suite.manifest.diff import factors
from suite.manifest.lock import Lock
from suite.manifest.schema import Manifest

WEIGHT_FACTORS = frozenset({"weight_quantisation", "model", "quantization"})
"""Factors under which candidate and reference do not multiply by the same weights."""


def arbiter_refusals(
    reference: Lock | Manifest, candidate: Lock | Manifest, arbiter: Lock | Manifest
) -> tuple[str, ...]:
    """Why `arbiter` may not judge between the two; empty if it may.

    It may for kernels, KV cache and parallelism: all three then use the same weights, and only the arithmetic differs.
    """
    found = []
    other = sorted({f.name for f in factors(reference, candidate).factors} & WEIGHT_FACTORS)
    if other:
        found.append(
            f"the candidate has other weights than its reference ({', '.join(other)}): float32 arithmetic on the "
            "reference's weights favours the reference by construction"
        )
    comparison = factors(reference, arbiter)
    if {f.name for f in comparison.factors} & WEIGHT_FACTORS:
        found.append("the arbiter has other weights than the reference")
    found += [f"not comparable with the reference: {why}" for why in comparison.not_comparable]
    if arbiter.engine.dtype != "float32":
        found.append(f"engine.dtype of the arbiter is {arbiter.engine.dtype}; it must be float32")
    if arbiter.engine.kv_cache_dtype != "auto":
        found.append("engine.kv_cache_dtype of the arbiter must be auto, which follows its dtype")
    return tuple(found)


def require_arbiter(reference: Lock, candidate: Lock, arbiter: Lock) -> None:
    """Refuse an arbiter that may not judge.

    Raises:
        InvalidInput: with every reason.
    """
    refusals = arbiter_refusals(reference, candidate, arbiter)
    if refusals:
        raise InvalidInput(
            f"{arbiter.name} may not be its arbiter: {'; '.join(refusals)}",
            where=candidate.name,
            hint="take `arbiter` out of this manifest, or name a float32 stack with the same weights",
        )
