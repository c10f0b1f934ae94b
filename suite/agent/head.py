"""The output head: kept once by hash, and replayed on stored hidden states to give the same logits bit for bit.

A stored head is the list of vocabulary shards as the tensor-parallel ranks hold them. Replaying is the arithmetic of
vLLM's `LogitsProcessor`: one matrix product per shard at a constant number of rows, concatenation, padding cut,
soft-cap and scale. Whether that reproduces a stack's own rows is never assumed; the replay probe decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from suite.agent.chunks import file_sha256
from suite.agent.events import AgentFailure
from suite.agent.rows import num_non_finite_rows, row_facts
from suite.agent.tensors import write_tensors


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """An output head ready to be applied."""

    weights: tuple[torch.Tensor, ...]
    """Vocabulary shards `[rows, hidden]`, in rank order."""
    biases: tuple[torch.Tensor | None, ...]
    vocab_size: int
    """Columns kept; what lies beyond is padding."""
    scale: float
    soft_cap: float | None
    dtype: torch.dtype
    """Dtype of the projection."""

    def logits(self, hidden: torch.Tensor, rows_per_gemm: int) -> torch.Tensor:
        """Logits `[n, vocab_size]` of hidden states `[n, hidden]`, always computed `rows_per_gemm` rows at a time."""
        parts = []
        for start in range(0, len(hidden), rows_per_gemm):
            block = hidden[start : start + rows_per_gemm].to(self.dtype)
            parts.append(self._apply(pad_rows(block, rows_per_gemm))[: len(block)])
        if len(parts) == 1:  # no copy: a block of rows may be large
            return parts[0]
        return torch.cat(parts) if parts else hidden.new_empty((0, self.vocab_size))

    def _apply(self, hidden: torch.Tensor) -> torch.Tensor:
        shards = [torch.nn.functional.linear(hidden, w, b) for w, b in zip(self.weights, self.biases, strict=True)]
        logits = (shards[0] if len(shards) == 1 else torch.cat(shards, dim=1))[:, : self.vocab_size]
        if self.soft_cap is not None:
            logits = torch.tanh(logits / self.soft_cap) * self.soft_cap
        return logits * self.scale if self.scale != 1.0 else logits


def pad_rows(rows: torch.Tensor, count: int) -> torch.Tensor:
    """`rows` with zero rows appended up to `count`, so that the matrix product has one constant shape."""
    if len(rows) == count:
        return rows
    padded = rows.new_zeros((count, rows.shape[1]))
    padded[: len(rows)] = rows
    return padded


def describe_head(model: Any) -> dict[str, Any] | None:
    """Find the head and logits processor of a loaded model; None when the head is quantised or cannot be told.

    Returns:
        `weight`, `bias` (tensors of this rank) and `vocab_size`, `scale`, `soft_cap`, `dtype`.
    """
    owner = _owner_of_head(model)
    if owner is None:
        return None
    head, processor = owner.lm_head, owner.logits_processor
    weight = getattr(head, "weight", None)
    if weight is None or not weight.is_floating_point() or weight.dtype.itemsize < 2:
        return None
    return {
        "weight": weight,
        "bias": getattr(head, "bias", None),
        "vocab_size": int(processor.org_vocab_size),
        "scale": float(processor.scale),
        "soft_cap": None if processor.soft_cap is None else float(processor.soft_cap),
        "dtype": str(getattr(processor, "head_dtype", None) or weight.dtype).removeprefix("torch."),
    }


def head_of(parts: dict[str, Any]) -> Head:
    """The head that `describe_head` found, whole on one rank, over the engine's own weights."""
    return Head(
        weights=(parts["weight"],),
        biases=(parts["bias"],),
        vocab_size=parts["vocab_size"],
        scale=parts["scale"],
        soft_cap=parts["soft_cap"],
        dtype=getattr(torch, parts["dtype"]),
    )


def _owner_of_head(model: Any) -> Any | None:
    """The (possibly nested, in multimodal models) module that has both an `lm_head` and a `logits_processor`."""
    for module in (model, getattr(model, "language_model", None)):
        if module is not None and hasattr(module, "lm_head") and hasattr(module, "logits_processor"):
            return module
    return None


def save_shard(folder: Path, rank: int, parts: dict[str, Any]) -> str:
    """Write one rank's shard as `<sha256>.safetensors` into `folder` (once) and return that hash."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"weight": parts["weight"].detach().cpu().contiguous()}
    if parts["bias"] is not None:
        tensors["bias"] = parts["bias"].detach().cpu().contiguous()
    metadata = {k: json.dumps(parts[k]) for k in ("vocab_size", "scale", "soft_cap", "dtype")}
    temporary = folder / f".shard-{rank}-{os.getpid()}.tmp"
    try:
        digest, _ = write_tensors(temporary, tensors, metadata=metadata)
        path = folder / f"{digest}.safetensors"
        if path.exists():
            temporary.unlink()
        else:
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return digest


def load_head(folder: Path, shards: list[str], device: str, *, live: Mapping[str, torch.Tensor] | None = None) -> Head:
    """Read the shards named by their hashes.

    Args:
        folder: The store's `heads`.
        shards: SHA-256 of each shard's file, in rank order.
        device: Where the weights go.
        live: Weights that the engine holds anyway, by their shard's hash: beside it a second copy may not fit.

    Raises:
        FileNotFoundError: a shard is absent.
        AgentFailure: a shard's content does not match its name (`altered`).
    """
    weights: list[torch.Tensor] = []
    biases: list[torch.Tensor | None] = []
    metadata: dict[str, str] = {}
    live = live or {}
    for name in shards:
        path = folder / f"{name}.safetensors"
        found = file_sha256(path)
        if found != name:
            raise AgentFailure(
                "altered", f"{path} has SHA-256 {found}: the stored head was changed", "delete it and capture again"
            )
        with safe_open(str(path), framework="pt", device=device) as file:
            metadata = file.metadata()
            weights.append(live[name] if name in live else file.get_tensor("weight"))
            biases.append(file.get_tensor("bias") if "bias" in file.keys() else None)  # noqa: SIM118 - not a mapping
    return Head(
        weights=tuple(weights),
        biases=tuple(biases),
        vocab_size=json.loads(metadata["vocab_size"]),
        scale=json.loads(metadata["scale"]),
        soft_cap=json.loads(metadata["soft_cap"]),
        dtype=getattr(torch, json.loads(metadata["dtype"])),
    )


def fingerprint(
    chunk: dict[str, torch.Tensor], head: Head, device: str, rows_per_gemm: int
) -> tuple[dict[str, torch.Tensor], int]:
    """Add to a hidden chunk the facts of its logits rows, against which a later replay elsewhere is checked.

    Returns:
        The chunk's tensors with those of `row_facts` added, and how many rows have logits that are not finite.
    """
    blocks = []
    non_finite = 0
    for start in range(0, len(chunk["rows"]), rows_per_gemm):
        logits = head.logits(chunk["rows"][start : start + rows_per_gemm].to(device), rows_per_gemm)
        non_finite += num_non_finite_rows(logits)
        blocks.append(row_facts(logits))
    return chunk | {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}, non_finite
