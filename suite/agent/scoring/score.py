"""One entry for scoring rows that lie on a device: the Triton kernel on a GPU, plain torch elsewhere."""

from __future__ import annotations

import torch

from suite.agent.scoring import torch_kernel
from suite.agent.scoring.columns import Raw, columns_of


def measure(reference: torch.Tensor, candidate: torch.Tensor) -> Raw:
    """What a kernel leaves of n pairs of rows; shapes and dtypes as for `score_pairs`."""
    if not reference.is_cuda:
        return torch_kernel.measure(reference, candidate)
    from suite.agent.scoring import triton_kernel

    return triton_kernel.measure(reference, candidate)


def score_pairs(reference: torch.Tensor, candidate: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Score n pairs of logits rows.

    Args:
        reference: `[n, V]`, V >= 2, bfloat16, float16 or float32, padding cut.
        candidate: `[n, V]` likewise, on the same device; the dtypes may differ.
        targets: int64 `[n]`, each in `[0, V)`.

    Returns:
        Every column of `suite.score.interface.KERNEL_COLUMNS`, `[n]`, on that device.
    """
    assert reference.shape == candidate.shape, "both sides have rows of the same shape"
    assert targets.shape == (len(reference),), "one target per row"
    return columns_of(measure(reference, candidate), reference, candidate, targets)
