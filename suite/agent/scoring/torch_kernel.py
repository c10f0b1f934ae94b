"""The metrics in plain torch operations, FP64: for processors without Triton, and the measure of the Triton kernel.

Formulas: `suite.score.numpy_kernel`. Every intermediate is a whole block of rows, so it is slow and wants memory: about
ten times eight bytes per entry of a block.
"""

from __future__ import annotations

import torch

from suite.agent.scoring.columns import MANTISSA_BITS, SMALLEST_NORMAL_FIELD, Raw

_BLOCK_BYTES = 1 << 28


def measure(reference: torch.Tensor, candidate: torch.Tensor) -> Raw:
    """Scores of n pairs of rows; see `suite.agent.scoring.columns.columns_of`.

    Args:
        reference: `[n, V]`, bfloat16, float16 or float32, on any device.
        candidate: `[n, V]` likewise; the dtypes may differ.
    """
    count, vocab_size = reference.shape
    rows = max(1, _BLOCK_BYTES // (80 * vocab_size))
    blocks = [_measure(reference[i : i + rows], candidate[i : i + rows]) for i in range(0, count, rows)]
    if not blocks:
        return Raw(
            floats=torch.empty((0, 13), dtype=torch.float64, device=reference.device),
            integers=torch.empty((0, 5), dtype=torch.int32, device=reference.device),
        )
    return Raw(
        floats=torch.cat([block.floats for block in blocks]), integers=torch.cat([block.integers for block in blocks])
    )


def _measure(reference: torch.Tensor, candidate: torch.Tensor) -> Raw:
    ours, theirs = _Side(reference), _Side(candidate)
    p, q = ours.log_p.exp(), theirs.log_p.exp()
    log_ratio = ours.log_p - theirs.log_p
    difference = q - p
    log_middle = torch.logaddexp(ours.log_p, theirs.log_p) - 0.6931471805599453
    middle = p * (ours.log_p - log_middle) + q * (theirs.log_p - log_middle)
    level = theirs.logits.gather(1, ours.top_id)
    ids = torch.arange(reference.shape[1], device=reference.device)
    before = (theirs.logits > level) | ((theirs.logits == level) & (ids < ours.top_id))
    spacing = ours.squared_spacing() + theirs.squared_spacing()
    sums = [
        (difference + p * log_ratio).sum(1),
        (q * -log_ratio - difference).sum(1),
        0.5 * middle.sum(1),
        0.5 * difference.abs().sum(1),
        -(p * ours.log_p).sum(1),
        -(q * theirs.log_p).sum(1),
        ((p - p * p) * spacing).sum(1) / 24.0,
    ]
    counts = [ours.top_id[:, 0], theirs.top_id[:, 0], ours.finite(), theirs.finite(), before.sum(1)]
    return Raw(
        floats=torch.stack([*ours.facts(), *theirs.facts(), *sums], dim=1),
        integers=torch.stack([c.to(torch.int32) for c in counts], dim=1),
    )


class _Side:
    """A block of rows as float32 and what is needed of it."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.dtype = rows.dtype
        self.logits = rows.float()
        ids = torch.arange(rows.shape[1], device=rows.device)
        self.top = self.logits.max(dim=1, keepdim=True).values
        # Which of equal logits max() names is not defined; the rule is the lowest id.
        self.top_id = torch.where(self.logits == self.top, ids, rows.shape[1]).min(dim=1, keepdim=True).values
        self.top_id.clamp_(max=rows.shape[1] - 1)
        self.second = torch.where(ids == self.top_id, -torch.inf, self.logits).max(dim=1, keepdim=True).values
        shifted = self.logits.double() - self.top.double()
        self.log_total = shifted.exp().sum(1, keepdim=True).log()
        self.log_p = shifted - self.log_total

    def facts(self) -> list[torch.Tensor]:
        return [self.top[:, 0].double(), self.second[:, 0].double(), self.log_total[:, 0]]

    def finite(self) -> torch.Tensor:
        return torch.isfinite(self.logits).all(1)

    def squared_spacing(self) -> torch.Tensor:
        field = ((self.logits.view(torch.int32) >> 23) & 0xFF).clamp(min=SMALLEST_NORMAL_FIELD[self.dtype])
        doubled = 2 * (field.long() - 127 - MANTISSA_BITS[self.dtype]) + 1023
        return (doubled << 52).view(torch.float64)
