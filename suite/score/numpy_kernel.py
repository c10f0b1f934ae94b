"""The reference implementation of the metrics: NumPy, one thread, FP64, one row pair at a time.

Notation: z the logits of a row as stored, p = softmax(z) of the reference, q = softmax(z) of the candidate, ln natural,
all sums over the whole vocabulary. A row pair at a time keeps the working set in cache and memory constant.

- KL(p‖q) = Σ (q - p + p ln(p/q)): Kullback and Leibler (1951), in the generalised form whose every term is >= 0 (it
  equals Σ p ln(p/q) because p and q both sum to 1), so that rounding cannot make it negative.
- JSD = ½ KL(p‖m) + ½ KL(q‖m), m = (p + q)/2: Lin (1991); symmetric, at most ln 2.
- total variation = ½ Σ |p - q|; at most sqrt(KL/2) (Pinsker).
- entropy = -Σ p ln p; NLL = -ln p[target].
- top-1: the lowest id among the ids with the largest stored logit. A flip is tied if either side's top-1 has, on the
  other side, a logit exactly equal to that side's largest.
- margin: largest minus second largest stored logit (0 when tied); in ULPs, divided by the spacing of the stored dtype
  at the largest.
- rank: 1 + how many ids the candidate puts before the reference's top-1 (larger logit, or equal logit and lower id).
- rounding KL: the KL that rounding alone would put between two rows of equal exact logits. If each stored logit carries
  an independent error e uniform within half its spacing u, of variance u²/12, then KL(softmax(z)‖softmax(z+e)) is to
  second order ½ Var_p(e) (the cumulant expansion of the log-partition function), whose expectation is
  ½ Σ p (1-p) u²/12. Both rows are rounded independently, so the variances of both sides add, each with its own
  spacings, under the reference's p. At logits of 16 to 32 in BF16 (u = 1/8) it is at most 1.3e-3 nats. Sound while u is
  below about 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import RowDtype
from suite.capture.rows import Rows, stored_dtype, to_float32
from suite.score.interface import Columns, check_shapes, empty_columns

MANTISSA_BITS: dict[RowDtype, int] = {"bfloat16": 7, "float16": 10, "float32": 23}
SMALLEST_NORMAL: dict[RowDtype, float] = {"bfloat16": 2.0**-126, "float16": 2.0**-14, "float32": 2.0**-126}
_EXPONENT_MASK = np.uint32(0x7F800000)
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, kw_only=True, slots=True)
class NumpyKernel:
    """The plain implementation that the others are measured against."""

    name: str = "numpy"

    def score_block(self, reference: Rows, candidate: Rows | None, target_ids: NDArray[np.int64]) -> Columns:
        """See `suite.score.interface.Kernel`."""
        check_shapes(reference, candidate, target_ids)
        count, vocab_size = reference.shape
        columns = empty_columns(count)
        columns["finite_ref"][:] = np.isfinite(to_float32(reference)).all(axis=1)
        same = candidate is None
        columns["finite_cand"][:] = (
            columns["finite_ref"] if candidate is None else np.isfinite(to_float32(candidate)).all(axis=1)
        )
        scratch = np.empty((3, vocab_size))
        for row in np.flatnonzero(columns["finite_ref"] & columns["finite_cand"]):
            ours = _Side.of(reference[row], int(target_ids[row]))
            theirs = ours if candidate is None else _Side.of(candidate[row], int(target_ids[row]))
            values = _describe(ours, theirs, scratch[0])
            if not same:
                values |= _divergences(ours, theirs, scratch)
            for name, value in values.items():
                columns[name][row] = value
        return columns


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """One row with what is needed of it; arrays are [V]."""

    logits: NDArray[np.float32]
    dtype: RowDtype
    log_p: NDArray[np.float64]
    p: NDArray[np.float64]
    top1: int
    margin: float
    entropy: float
    nll: float

    @classmethod
    def of(cls, stored: Rows, target: int) -> _Side:
        logits = to_float32(stored)
        top1 = int(logits.argmax())
        best = np.float64(logits[top1])
        rest = max(float(part.max()) for part in (logits[:top1], logits[top1 + 1 :]) if part.size)
        log_p = np.subtract(logits, best, dtype=np.float64)
        p = np.exp(log_p)
        total = p.sum()
        log_p -= np.log(total)
        p /= total
        return cls(
            logits=logits,
            dtype=stored_dtype(stored),
            log_p=log_p,
            p=p,
            top1=top1,
            margin=float(best - rest),
            entropy=-float((p * log_p).sum()),
            nll=-float(log_p[target]),
        )

    @property
    def spacing_at_top1(self) -> float:
        power = float(_powers(self.logits[self.top1 : self.top1 + 1])[0])
        return float(max(power, SMALLEST_NORMAL[self.dtype]) * 2.0 ** -MANTISSA_BITS[self.dtype])


def _describe(ours: _Side, theirs: _Side, scratch: NDArray[np.float64]) -> dict[str, Any]:
    a, b = ours.top1, theirs.top1
    level = theirs.logits[a]
    before = np.count_nonzero(theirs.logits > level) + np.count_nonzero(theirs.logits[:a] == level)
    np.subtract(1.0, ours.p, out=scratch)
    scratch *= ours.p
    spread = _rounding_variance(ours, scratch)
    spread += spread if theirs is ours else _rounding_variance(theirs, scratch)
    return {
        "ref_top1": a,
        "cand_top1": b,
        "ref_p_ref_top1": ours.p[a],
        "ref_p_cand_top1": ours.p[b],
        "cand_p_ref_top1": theirs.p[a],
        "cand_p_cand_top1": theirs.p[b],
        "ref_margin_nats": ours.margin,
        "ref_margin_ulps": ours.margin / ours.spacing_at_top1,
        "cand_margin_nats": theirs.margin,
        "flip": a != b,
        "tied": a != b and bool(ours.logits[b] == ours.logits[a] or theirs.logits[a] == theirs.logits[b]),
        "rank_ref_top1_in_cand": 1 + before,
        "entropy_ref": ours.entropy,
        "entropy_cand": theirs.entropy,
        "nll_ref": ours.nll,
        "nll_cand": theirs.nll,
        "rounding_kl": 0.5 * spread,
        "kl_ref_cand": 0.0,
        "kl_cand_ref": 0.0,
        "jsd": 0.0,
        "total_variation": 0.0,
    }


def _divergences(ours: _Side, theirs: _Side, scratch: NDArray[np.float64]) -> dict[str, float]:
    p, q = ours.p, theirs.p
    log_ratio, difference, term = scratch
    np.subtract(ours.log_p, theirs.log_p, out=log_ratio)
    np.subtract(q, p, out=difference)

    np.multiply(p, log_ratio, out=term)
    term += difference
    np.maximum(term, 0.0, out=term)
    kl_ref_cand = float(term.sum())

    np.multiply(q, log_ratio, out=term)
    term += difference
    np.minimum(term, 0.0, out=term)
    kl_cand_ref = -float(term.sum())

    np.abs(difference, out=term)
    total_variation = 0.5 * float(term.sum())

    # p ln(p/m) + q ln(q/m) >= 0 for each id; where both p and q underflow the term is 0 whatever ln m is.
    log_middle = np.add(p, q, out=difference)
    log_middle *= 0.5
    np.maximum(log_middle, _TINY, out=log_middle)
    np.log(log_middle, out=log_middle)
    np.subtract(ours.log_p, log_middle, out=term)
    term *= p
    np.subtract(theirs.log_p, log_middle, out=log_ratio)
    log_ratio *= q
    term += log_ratio
    np.maximum(term, 0.0, out=term)
    return {
        "kl_ref_cand": kl_ref_cand,
        "kl_cand_ref": kl_cand_ref,
        "jsd": min(0.5 * float(term.sum()), float(np.log(2.0))),
        "total_variation": min(total_variation, 1.0),
    }


def _powers(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest power of two not above |z|, for each logit; 0 for zeros and subnormal numbers."""
    return (logits.view(np.uint32) & _EXPONENT_MASK).view(np.float32)


def _rounding_variance(side: _Side, weights: NDArray[np.float64]) -> float:
    """Σ weights · u²/12 with u the spacing of the stored dtype at each logit."""
    spacing = np.maximum(_powers(side.logits), np.float32(SMALLEST_NORMAL[side.dtype])).astype(np.float64)
    spacing *= 2.0 ** -MANTISSA_BITS[side.dtype]
    spacing *= spacing
    spacing *= weights
    return float(spacing.sum()) / 12.0
