"""The metrics on a GPU: one program scores one pair of rows, in FP64, without a copy of the rows.

Formulas: `suite.score.numpy_kernel`. A row is read three times: for its best logits, for the sum of its exponentials
(in FP64, relative to the best), and, both sides together, for the divergences. The first reading is bound by memory,
the others by FP64 arithmetic, which the card overlaps between programs.

With d = ln p - ln q, r the larger of p and q and t = exp(-|d|), the smaller of the two is r t and

    p ln(p/m) + q ln(q/m) = r ((1 + t) (ln 2 - ln(1 + t)) - t |d|),

so two exponentials and one polynomial per pair of entries give all divergences.
"""

# The language's functions take no annotations, and write constants in capitals.
# ruff: noqa: ANN001, ANN202, N803
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl

from suite.agent.scoring import coefficients
from suite.agent.scoring.columns import MANTISSA_BITS, SMALLEST_NORMAL_FIELD, Raw

_EXP = tl.constexpr(coefficients.EXP)
_EXP_DEGREE = tl.constexpr(len(coefficients.EXP) - 1)
_LOG1P = tl.constexpr(coefficients.LOG1P)
_LOG1P_DEGREE = tl.constexpr(len(coefficients.LOG1P) - 1)
_LOG2_E = tl.constexpr(coefficients.LOG2_E)
_MINUS_LN_2_HIGH = tl.constexpr(-coefficients.LN_2_HIGH)
_MINUS_LN_2_LOW = tl.constexpr(-coefficients.LN_2_LOW)
_LN_2 = tl.constexpr(coefficients.LN_2_HIGH + coefficients.LN_2_LOW)
_ROUNDER = tl.constexpr(coefficients.ROUNDER)
_SMALLEST_EXPONENT = tl.constexpr(coefficients.SMALLEST_EXPONENT)

_FLOATS = tl.constexpr(13)
_INTEGERS = tl.constexpr(5)

BLOCK = 512
"""Columns that a program reads at a time."""
NUM_WARPS = 4


@triton.jit
def _exp(x):
    """exp(x) of FP64 x <= 0."""
    x = tl.maximum(x, _SMALLEST_EXPONENT)
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = k * _MINUS_LN_2_LOW + (k * _MINUS_LN_2_HIGH + x)
    y = r * _EXP[_EXP_DEGREE] + _EXP[_EXP_DEGREE - 1]
    for i in tl.static_range(2, _EXP_DEGREE + 1):
        y = y * r + _EXP[_EXP_DEGREE - i]
    bits = y.to(tl.int64, bitcast=True) + (shifted.to(tl.int64, bitcast=True) << 52)
    return bits.to(tl.float64, bitcast=True)


@triton.jit
def _log1p(t):
    """ln(1 + t) of FP64 t in [0, 1]."""
    y = t * _LOG1P[_LOG1P_DEGREE] + _LOG1P[_LOG1P_DEGREE - 1]
    for i in tl.static_range(2, _LOG1P_DEGREE + 1):
        y = y * t + _LOG1P[_LOG1P_DEGREE - i]
    return y


@triton.jit
def _squared_spacing(bits, MANTISSA: tl.constexpr, SMALLEST: tl.constexpr):
    """u² of float32 bits, u the spacing of the stored dtype there, made by its exponent alone."""
    field = tl.maximum((bits >> 23) & 0xFF, SMALLEST)
    doubled = 2 * (field - 127 - MANTISSA) + 1023
    return (doubled.to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _best(row, vocab_size, BLOCK: tl.constexpr):
    """Largest logit, its lowest id, the largest of the rest, and whether all are finite."""
    lane = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    rest = tl.full((BLOCK,), float("-inf"), tl.float32)
    ids = tl.zeros((BLOCK,), tl.int32)
    magnitude = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, vocab_size, BLOCK):
        at = start + lane
        inside = at < vocab_size
        z = tl.load(row + at, mask=inside, other=0.0).to(tl.float32)
        magnitude = tl.maximum(magnitude, z.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
        z = tl.where(inside, z, float("-inf"))
        rest = tl.maximum(rest, tl.minimum(best, z))
        ids = tl.where(z > best, at, ids)
        best = tl.maximum(best, z)
    top = tl.max(best, 0)
    top_id = tl.min(tl.where(best == top, ids, 0x7FFFFFFF), 0)
    second = tl.max(tl.where((best == top) & (ids == top_id), rest, best), 0)
    return top, top_id, second, (tl.max(magnitude, 0) < 0x7F800000).to(tl.int32)


@triton.jit
def _log_total(row, top, vocab_size, BLOCK: tl.constexpr):
    """Logarithm of Σ exp(z - top)."""
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, vocab_size, BLOCK):
        at = start + lane
        z = tl.load(row + at, mask=at < vocab_size, other=float("-inf")).to(tl.float64)
        total += _exp(z - top)
    return tl.log(tl.sum(total, 0))


@triton.jit
def _score(
    reference,
    candidate,
    reference_stride,
    candidate_stride,
    floats,
    integers,
    vocab_size,
    REFERENCE_MANTISSA: tl.constexpr,
    CANDIDATE_MANTISSA: tl.constexpr,
    REFERENCE_SMALLEST: tl.constexpr,
    CANDIDATE_SMALLEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    ours = reference + number * reference_stride
    theirs = candidate + number * candidate_stride
    our_top, our_id, our_rest, our_finite = _best(ours, vocab_size, BLOCK)
    their_top, their_id, their_rest, their_finite = _best(theirs, vocab_size, BLOCK)
    our_best = our_top.to(tl.float64)
    their_best = their_top.to(tl.float64)
    our_log = _log_total(ours, our_best, vocab_size, BLOCK)
    their_log = _log_total(theirs, their_best, vocab_size, BLOCK)
    level = tl.load(theirs + our_id).to(tl.float32)

    lane = tl.arange(0, BLOCK)
    forward = tl.zeros((BLOCK,), tl.float64)
    backward = tl.zeros((BLOCK,), tl.float64)
    middle = tl.zeros((BLOCK,), tl.float64)
    variation = tl.zeros((BLOCK,), tl.float64)
    our_entropy = tl.zeros((BLOCK,), tl.float64)
    their_entropy = tl.zeros((BLOCK,), tl.float64)
    spread = tl.zeros((BLOCK,), tl.float64)
    before = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, vocab_size, BLOCK):
        at = start + lane
        inside = at < vocab_size
        # Beyond the row's end: as unlikely as can be on both sides, and finite, so that the difference is.
        our_z = tl.where(inside, tl.load(ours + at, mask=inside, other=0.0).to(tl.float32), -3.0e38)
        their_z = tl.where(inside, tl.load(theirs + at, mask=inside, other=0.0).to(tl.float32), -3.0e38)
        our_x = (our_z.to(tl.float64) - our_best) - our_log
        their_x = (their_z.to(tl.float64) - their_best) - their_log
        d = our_x - their_x
        up = d >= 0
        away = -tl.abs(d)
        t = _exp(away)
        r = _exp(tl.where(up, our_x, their_x))
        s = r * t
        p = tl.where(up, r, s)
        q = tl.where(up, s, r)
        difference = q - p
        forward += p * d + difference
        backward += q * d + difference
        variation += tl.abs(difference)
        middle += r * ((1.0 + t) * (_LN_2 - _log1p(t)) + t * away)
        our_entropy += p * our_x
        their_entropy += q * their_x
        spacing = _squared_spacing(
            our_z.to(tl.int32, bitcast=True), REFERENCE_MANTISSA, REFERENCE_SMALLEST
        ) + _squared_spacing(their_z.to(tl.int32, bitcast=True), CANDIDATE_MANTISSA, CANDIDATE_SMALLEST)
        spread += (p - p * p) * spacing
        before += (inside & ((their_z > level) | ((their_z == level) & (at < our_id)))).to(tl.int32)

    out = floats + number * _FLOATS
    tl.store(out + 0, our_best)
    tl.store(out + 1, our_rest.to(tl.float64))
    tl.store(out + 2, our_log)
    tl.store(out + 3, their_best)
    tl.store(out + 4, their_rest.to(tl.float64))
    tl.store(out + 5, their_log)
    tl.store(out + 6, tl.sum(forward, 0))
    tl.store(out + 7, -tl.sum(backward, 0))
    tl.store(out + 8, 0.5 * tl.sum(middle, 0))
    tl.store(out + 9, 0.5 * tl.sum(variation, 0))
    tl.store(out + 10, -tl.sum(our_entropy, 0))
    tl.store(out + 11, -tl.sum(their_entropy, 0))
    tl.store(out + 12, tl.sum(spread, 0) / 24.0)
    out = integers + number * _INTEGERS
    tl.store(out + 0, our_id)
    tl.store(out + 1, their_id)
    tl.store(out + 2, our_finite)
    tl.store(out + 3, their_finite)
    tl.store(out + 4, tl.sum(before, 0))


def measure(reference: torch.Tensor, candidate: torch.Tensor, *, block: int = BLOCK, num_warps: int = NUM_WARPS) -> Raw:
    """Scores of n pairs of rows as the kernel leaves them; see `suite.agent.scoring.columns.columns_of`.

    Args:
        reference: `[n, V]` on the GPU, bfloat16, float16 or float32; the last dimension is contiguous.
        candidate: `[n, V]` likewise; the dtypes may differ.
        block: Columns read at a time, a power of two.
        num_warps: Warps of a program.
    """
    count, vocab_size = reference.shape
    floats = torch.empty((count, _FLOATS.value), dtype=torch.float64, device=reference.device)
    integers = torch.empty((count, _INTEGERS.value), dtype=torch.int32, device=reference.device)
    if count:
        _score[(count,)](
            reference,
            candidate,
            reference.stride(0),
            candidate.stride(0),
            floats,
            integers,
            vocab_size,
            REFERENCE_MANTISSA=MANTISSA_BITS[reference.dtype],
            CANDIDATE_MANTISSA=MANTISSA_BITS[candidate.dtype],
            REFERENCE_SMALLEST=SMALLEST_NORMAL_FIELD[reference.dtype],
            CANDIDATE_SMALLEST=SMALLEST_NORMAL_FIELD[candidate.dtype],
            BLOCK=block,
            num_warps=num_warps,
        )
    return Raw(floats=floats, integers=integers)
