"""What every scoring kernel of the stack leaves per pair of rows, and the ledger's columns made of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

MANTISSA_BITS = {torch.bfloat16: 7, torch.float16: 10, torch.float32: 23}
SMALLEST_NORMAL_FIELD = {torch.bfloat16: 1, torch.float16: 113, torch.float32: 1}
"""Exponent field that the smallest normal number of a dtype has as float32."""

_LN_2 = 0.6931471805599453
_EXPONENT_MASK = 0x7F800000


@dataclass(frozen=True, kw_only=True, slots=True)
class Raw:
    """Measures of n pairs of rows; what they hold for rows that are not finite is not defined."""

    floats: torch.Tensor
    """float64 `[n, 13]`: of the reference its largest logit, its second largest, and the ln of its Σ exp(z - largest);
    the same of the candidate; KL(p‖q), KL(q‖p), JSD, total variation; both entropies; the rounding KL."""
    integers: torch.Tensor
    """int32 `[n, 5]`: both top-1 ids, both finite flags, and how many ids the candidate puts before the reference's
    top-1."""


def columns_of(
    raw: Raw, reference: torch.Tensor, candidate: torch.Tensor, targets: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The columns named in `suite.score.interface.KERNEL_COLUMNS`, each `[n]`, on the device of the rows.

    Args:
        raw: Measures of the rows.
        reference: `[n, V]` rows as stored.
        candidate: `[n, V]` rows as stored.
        targets: int64 `[n]`, recorded tokens.
    """
    ours, theirs = raw.floats[:, 0:3].unbind(1), raw.floats[:, 3:6].unbind(1)
    forward, backward, middle, variation, our_entropy, their_entropy, rounding = raw.floats[:, 6:].unbind(1)
    our_id, their_id, our_finite, their_finite, before = raw.integers.unbind(1)
    finite = (our_finite != 0) & (their_finite != 0)
    vocab_size = reference.shape[1]
    a = torch.where(finite, our_id, 0).long().clamp(0, vocab_size - 1)
    b = torch.where(finite, their_id, 0).long().clamp(0, vocab_size - 1)

    def log_p(side: tuple[torch.Tensor, ...], rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return (_at(rows, ids) - side[0]) - side[2]

    flip = finite & (a != b)
    tied = flip & ((_at(reference, b) == ours[0]) | (_at(candidate, a) == theirs[0]))
    our_margin = ours[0] - ours[1]
    floats = {
        "ref_p_ref_top1": log_p(ours, reference, a).exp(),
        "ref_p_cand_top1": log_p(ours, reference, b).exp(),
        "cand_p_ref_top1": log_p(theirs, candidate, a).exp(),
        "cand_p_cand_top1": log_p(theirs, candidate, b).exp(),
        "ref_margin_nats": our_margin,
        "ref_margin_ulps": our_margin / _spacing(ours[0], reference.dtype),
        "cand_margin_nats": theirs[0] - theirs[1],
        "kl_ref_cand": forward.clamp(min=0.0),
        "kl_cand_ref": backward.clamp(min=0.0),
        # Equal distributions give exactly 0: the polynomial for the logarithm is a few 1e-15 off.
        "jsd": torch.where(variation == 0.0, 0.0, middle.clamp(0.0, _LN_2)),
        "total_variation": variation.clamp(max=1.0),
        "entropy_ref": our_entropy,
        "entropy_cand": their_entropy,
        "nll_ref": -log_p(ours, reference, targets),
        "nll_cand": -log_p(theirs, candidate, targets),
        "rounding_kl": rounding,
    }
    columns = {name: torch.where(finite, values, torch.nan) for name, values in floats.items()}
    return columns | {
        "ref_top1": torch.where(finite, our_id, -1),
        "cand_top1": torch.where(finite, their_id, -1),
        "flip": flip,
        "tied": tied,
        "rank_ref_top1_in_cand": torch.where(finite, before + 1, 0),
        "finite_ref": our_finite != 0,
        "finite_cand": their_finite != 0,
    }


def _at(rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return rows.gather(1, ids[:, None])[:, 0].double()


def _spacing(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance of neighbouring numbers of `dtype` at float64 `values` that `dtype` can hold."""
    power = (values.float().view(torch.int32) & _EXPONENT_MASK).view(torch.float32).double()
    smallest = 2.0 ** (SMALLEST_NORMAL_FIELD[dtype] - 127)
    return power.clamp(min=smallest) * 2.0 ** -MANTISSA_BITS[dtype]
