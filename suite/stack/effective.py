"""What an engine really used, in words that logs and receipts share: KV cache label, capacity, all-reduce routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_EIGHT_BITS = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
# vLLM prints the concurrency with two decimals.
_ROUNDING = 0.005
_TOLERANCE = 0.01


def kv_label(dtype: str | None, *, k_scale: float | None = None, v_scale: float | None = None) -> str:
    """A KV cache as a person should read it: two caches of one dtype are not one thing if their scales differ.

    Args:
        dtype: As the engine names it; None where it is not known.
        k_scale: Scale of keys, None where it was not read back.
        v_scale: Scale of values, likewise.
    """
    if dtype is None:
        return "not told"
    if dtype.endswith("_per_token_head"):
        return f"{dtype}, scales per token and head, made while running"
    if dtype not in _EIGHT_BITS:
        return dtype
    if k_scale is None or v_scale is None:
        return f"{dtype}, scales not told"
    if k_scale == 1.0 and v_scale == 1.0:
        return f"{dtype}, unit scale, uncalibrated"
    return f"{dtype}, scales of the checkpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class KvCapacity:
    """Tokens that fit the KV cache, from the two figures that vLLM gives."""

    tokens_from_line: int | None
    """The figure that vLLM calls the cache's size."""
    length_tokens: int | None
    concurrency: float | None
    """Requests of that length at a time."""

    @property
    def tokens_from_concurrency(self) -> int | None:
        """Concurrency times length; rounded as the printed concurrency is."""
        if self.length_tokens is None or self.concurrency is None:
            return None
        return round(self.concurrency * self.length_tokens)

    @property
    def consistent(self) -> bool | None:
        """Whether the two agree within their rounding; None where one is absent.

        On hybrid models the first is wrong (vllm#40691).
        """
        line, other = self.tokens_from_line, self.tokens_from_concurrency
        if line is None or other is None:
            return None
        assert self.length_tokens is not None
        return abs(line - other) <= _ROUNDING * self.length_tokens + _TOLERANCE * max(line, other)

    @property
    def message(self) -> str:
        """Both figures, and whether they agree."""
        line, other = self.tokens_from_line, self.tokens_from_concurrency
        if line is None and other is None:
            return "not told"
        if line is None or other is None:
            return f"{line or other:,} tokens"
        figures = f"{line:,} tokens by the engine's size line, {other:,} by concurrency x length"
        return f"{line:,} tokens" if self.consistent else f"{figures}: they disagree (hybrid models: trust the second)"

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "tokens_from_line": self.tokens_from_line,
            "length_tokens": self.length_tokens,
            "concurrency": self.concurrency,
            "tokens_from_concurrency": self.tokens_from_concurrency,
            "consistent": self.consistent,
            "message": self.message,
        }


def all_reduce_routes(parallel: dict[str, Any]) -> list[str] | None:
    """Routes that stand ready for an all-reduce, in the order in which vLLM tries them; None for one rank.

    Args:
        parallel: `ranks[].parallel` of a receipt.
    """
    size = parallel.get("tensor_parallel_size")
    if not isinstance(size, int) or size < 2:
        return None
    # Under the names that vLLM's log gives them.
    names = {
        "fi_ar_comm": "FLASHINFER",
        "qr_comm": "QUICK_REDUCE",
        "ca_comm": "CUSTOM",
        "symm_mem_comm": "SYMM_MEM",
        "pynccl_comm": "PYNCCL",
    }
    found = []
    for key, name in names.items():
        route = parallel.get(key)
        if isinstance(route, dict) and route.get("disabled") is not True:
            found.append(name)
    return found or [str(parallel.get("communicator") or "torch.distributed")]
