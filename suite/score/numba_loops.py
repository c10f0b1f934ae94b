"""The loops of `NumbaKernel`, compiled when first called and kept in numba's cache folder.

Each pair of rows is read three times: for the best logits (integers alone), for the sums of exponentials, and, both
sides together in tiles that stay in the first-level cache, for the divergences. With d = ln p - ln q, r the larger of
p and q and t = exp(-|d|), the smaller of the two is r t and

    p ln(p/m) + q ln(q/m) = r ((1 + t) (ln 2 - ln(1 + t)) - t |d|),

so two exponentials and one polynomial per pair of entries give all divergences. For the sums that go before, a
bfloat16 logit, one of 65,536 numbers, has its exponential looked up. The compiler may sum a tile in the order of its
vectors: an order fixed by the compiled code, which neither threads nor neighbours change.
"""

# The compiler gives the functions their types, one version for each dtype of rows.
# ruff: noqa: ANN001, ANN202, ANN201
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import math

import numba
import numpy as np

from suite.agent.scoring import coefficients

_E0, _E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10 = coefficients.EXP
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8, _L9, _L10, _L11, _L12, _L13, _L14, _L15 = coefficients.LOG1P
_LOG2_E = coefficients.LOG2_E
_LN_2_HIGH = coefficients.LN_2_HIGH
_LN_2_LOW = coefficients.LN_2_LOW
_LN_2 = _LN_2_HIGH + _LN_2_LOW
_ROUNDER = coefficients.ROUNDER
_SMALLEST_EXPONENT = coefficients.SMALLEST_EXPONENT

_TILE = 512
_SEARCH = 1024
_INFINITE = 0x7F800000
_LARGEST_LOOKED_UP = 300.0
"""A best logit with which a sum of exponentials neither overflows nor loses what counts."""
_POWER = 0x7FF0000000000000

FLOATS = 16
"""Float columns per pair, in the order of `suite.score.interface.KERNEL_COLUMNS`."""

_CACHE = bool(numba.config.CACHE_DIR)
# Contraction joins a product and a sum into one rounding. Sums may be split over the lanes of a vector.
_exact = numba.njit(nogil=True, cache=_CACHE)
_joined = numba.njit(nogil=True, cache=_CACHE, fastmath={"contract"})
_summing = numba.njit(nogil=True, cache=_CACHE, fastmath={"contract", "reassoc", "nsz"})


@_exact
def _value(bits, shift):
    """The number whose float32 bits, or bfloat16 bits if `shift` is 16, are given."""
    return np.float64(np.uint32(np.uint32(bits) << shift).view(np.float32))


@_exact
def _key(bits, shift):
    """An integer that orders as the number does; both zeros are equal."""
    signed = np.int32(np.uint32(np.uint32(bits) << shift))
    magnitude = np.int32(signed & np.int32(0x7FFFFFFF))
    return np.int32(-magnitude) if signed < 0 else magnitude


@_joined
def exp(x):
    """E to the power of x <= 700; what lies below -700 counts as -700."""
    x = max(x, _SMALLEST_EXPONENT)
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = (x - k * _LN_2_HIGH) - k * _LN_2_LOW
    y = _E10
    y = y * r + _E9
    y = y * r + _E8
    y = y * r + _E7
    y = y * r + _E6
    y = y * r + _E5
    y = y * r + _E4
    y = y * r + _E3
    y = y * r + _E2
    y = y * r + _E1
    y = y * r + _E0
    bits = np.float64(y).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64)


@_joined
def log1p(t):
    """Logarithm of 1 + t for t in [0, 1], to 1e-13."""
    y = _L15
    y = y * t + _L14
    y = y * t + _L13
    y = y * t + _L12
    y = y * t + _L11
    y = y * t + _L10
    y = y * t + _L9
    y = y * t + _L8
    y = y * t + _L7
    y = y * t + _L6
    y = y * t + _L5
    y = y * t + _L4
    y = y * t + _L3
    y = y * t + _L2
    y = y * t + _L1
    return y * t + _L0


@_exact
def _largest_of_bfloat16(row):
    """As `_largest`, in 16-bit integers, of which a vector holds more."""
    best = np.int16(-0x7FFF)
    smallest = np.int16(0x7FFF)
    for i in range(row.shape[0]):
        signed = np.int16(row[i])
        magnitude = np.int16(signed & np.int16(0x7FFF))
        key = np.int16(-magnitude) if signed < 0 else magnitude
        best = max(best, key)
        smallest = min(smallest, key)
    return np.int32(np.int32(best) << 16), np.int32(np.int32(smallest) << 16)


@_exact
def _largest_of_float32(row):
    best = np.int32(-0x7FFFFFFF)
    smallest = np.int32(0x7FFFFFFF)
    for i in range(row.shape[0]):
        key = _key(row[i], np.uint32(0))
        best = max(best, key)
        smallest = min(smallest, key)
    return best, smallest


@_exact
def _largest(row, shift):
    """Largest and smallest key."""
    return _largest_of_bfloat16(row) if shift == 16 else _largest_of_float32(row)


@_exact
def _best(row, shift):
    """Lowest id of the largest logit, an id of the largest of the rest, and whether all are finite."""
    best = second = np.int32(-0x7FFFFFFF)
    block = second_block = 0
    finite = True
    for start in range(0, row.shape[0], _SEARCH):
        largest, smallest = _largest(row[start : start + _SEARCH], shift)
        finite = finite and largest < _INFINITE and smallest > -_INFINITE
        if largest > best:
            second, second_block = best, block
            best, block = largest, start
        elif largest > second:
            second, second_block = largest, start
    if not finite:
        return -1, -1, False
    top = block
    while _key(row[top], shift) != best:
        top += 1
    # The second may stand beside the best, in the same block.
    rest = -1
    if second != np.int32(-0x7FFFFFFF):
        rest = second_block
        while _key(row[rest], shift) != second:
            rest += 1
    for i in range(block, min(block + _SEARCH, row.shape[0])):
        if i != top and (rest < 0 or _key(row[i], shift) > _key(row[rest], shift)):
            rest = i
    return top, rest, True


@_summing
def _total(row, shift, top):
    total = 0.0
    for i in range(row.shape[0]):
        total += exp(_value(row[i], shift) - top)
    return total


@_exact
def exponentials_of_bfloat16():
    """The exponential of each bfloat16 number, by its bits; 1 for those that are not finite or above 700."""
    table = np.ones(1 << 16)
    for bits in range(1 << 16):
        value = _value(np.uint16(bits), np.uint32(16))
        if value <= 700.0 and value > -np.inf:
            table[bits] = exp(value)
    return table


@_summing
def _total_looked_up(row, table):
    total = 0.0
    for i in range(row.shape[0]):
        total += table[row[i]]
    return total


@_exact
def _log_total(row, shift, top, table):
    """Logarithm of the sum of exp(z - top)."""
    if shift == 16 and abs(top) <= _LARGEST_LOOKED_UP:
        return math.log(_total_looked_up(row, table)) - top
    return math.log(_total(row, shift, top))


@_exact
def _before(row, shift, at):
    """How many ids stand before `at`: larger logit, or equal logit and lower id."""
    level = _key(row[at], shift)
    count = 0
    for i in range(at):
        count += _key(row[i], shift) >= level
    for i in range(at, row.shape[0]):
        count += _key(row[i], shift) > level
    return count


@_joined
def _squared_power(value, smallest):
    """The square of the largest power of two not above |value|."""
    power = np.int64(np.float64(value).view(np.int64) & np.int64(_POWER)).view(np.float64)
    power = max(power, smallest)
    return power * power


@_exact
def _prepare(
    ours, our_shift, our_smallest, our_scale, our_top, our_log,
    theirs, their_shift, their_smallest, their_scale, their_top, their_log, d, h, u,
):  # fmt: skip
    """Per entry, d = ln p - ln q; h, the larger of the two; and u, the squared spacings of both logits together."""
    for i in range(ours.shape[0]):
        our_z, their_z = _value(ours[i], our_shift), _value(theirs[i], their_shift)
        our_x = (our_z - our_top) - our_log
        their_x = (their_z - their_top) - their_log
        u[i] = _squared_power(our_z, our_smallest) * our_scale + _squared_power(their_z, their_smallest) * their_scale
        d[i] = our_x - their_x
        h[i] = max(our_x, their_x)


@_exact
def _exponentials(d, h, t, r):
    for i in range(d.shape[0]):
        t[i] = exp(-abs(d[i]))
        r[i] = exp(h[i])


@_joined
def _middle_term(r, t, away):
    return r * ((1.0 + t) * (_LN_2 - log1p(t)) + t * away)


@_summing
def _middle(d, t, r):
    total = 0.0
    for i in range(d.shape[0]):
        total += _middle_term(r[i], t[i], -abs(d[i]))
    return total


@_joined
def _divergence_term(p, d, difference):
    return max(p * d + difference, 0.0)


@_summing
def _sums(d, h, t, r, u, sums):
    forward = backward = variation = our_entropy = their_entropy = spread = 0.0
    for i in range(d.shape[0]):
        away = d[i]
        up = away >= 0.0
        lower = r[i] * t[i]
        p = r[i] if up else lower
        q = lower if up else r[i]
        difference = q - p
        forward += _divergence_term(p, away, difference)
        backward += _divergence_term(q, -away, -difference)
        variation += abs(difference)
        below = h[i] - abs(away)
        our_entropy += p * (h[i] if up else below)
        their_entropy += q * (below if up else h[i])
        spread += (p - p * p) * u[i]
    sums[0] += forward
    sums[1] += backward
    sums[3] += variation
    sums[4] += our_entropy
    sums[5] += their_entropy
    sums[6] += spread


@_exact
def score_rows(
    start, stop, reference, our_shift, our_smallest, our_scale, candidate, their_shift, their_smallest, their_scale,
    targets, table, floats, integers,
):  # fmt: skip
    """Score the pairs [start, stop) and write their columns; rows that are not finite are left as they are.

    Args:
        start: First pair.
        stop: One past the last pair.
        reference: [n, V] bits, uint16 of bfloat16 or uint32 of float32.
        our_shift: 16 for bfloat16 bits, 0 for float32.
        our_smallest: Smallest normal number of the stored dtype.
        our_scale: Squared ratio of a number's spacing to its power of two.
        candidate: [n, V] likewise.
        their_shift: As for the reference.
        their_smallest: As for the reference.
        their_scale: As for the reference.
        targets: int64 [n].
        table: What `exponentials_of_bfloat16` gives.
        floats: [n, 16] of NaN, to be filled.
        integers: [n, 6] int32: top-1 ids, finite flags, tied, rank; to be filled.
    """
    # A little longer than the tile: at distances of whole pages the processor takes a load for a store's.
    tiles = np.empty((5, _TILE + 8))
    sums = np.empty(7)
    for row in range(start, stop):
        ours, theirs = reference[row], candidate[row]
        a, our_rest, our_finite = _best(ours, our_shift)
        b, their_rest, their_finite = _best(theirs, their_shift)
        integers[row, 2] = our_finite
        integers[row, 3] = their_finite
        if not (our_finite and their_finite):
            continue
        our_top, their_top = _value(ours[a], our_shift), _value(theirs[b], their_shift)
        our_log = _log_total(ours, our_shift, our_top, table)
        their_log = _log_total(theirs, their_shift, their_top, table)
        sums[:] = 0.0
        for at in range(0, ours.shape[0], _TILE):
            left, right = ours[at : at + _TILE], theirs[at : at + _TILE]
            size = left.shape[0]
            d, h, t, r, u = tiles[0, :size], tiles[1, :size], tiles[2, :size], tiles[3, :size], tiles[4, :size]
            _prepare(
                left, our_shift, our_smallest, our_scale, our_top, our_log,
                right, their_shift, their_smallest, their_scale, their_top, their_log, d, h, u,
            )  # fmt: skip
            _exponentials(d, h, t, r)
            sums[2] += _middle(d, t, r)
            _sums(d, h, t, r, u, sums)
        integers[row, 0] = a
        integers[row, 1] = b
        integers[row, 4] = a != b and (
            _value(ours[b], our_shift) == our_top or _value(theirs[a], their_shift) == their_top
        )
        integers[row, 5] = 1 if a == b else 1 + _before(theirs, their_shift, a)
        margin = our_top - _value(ours[our_rest], our_shift)
        spacing = math.sqrt(_squared_power(our_top, our_smallest) * our_scale)
        target = targets[row]
        out = floats[row]
        out[0] = exp((_value(ours[a], our_shift) - our_top) - our_log)
        out[1] = exp((_value(ours[b], our_shift) - our_top) - our_log)
        out[2] = exp((_value(theirs[a], their_shift) - their_top) - their_log)
        out[3] = exp((_value(theirs[b], their_shift) - their_top) - their_log)
        out[4] = margin
        out[5] = margin / spacing
        out[6] = their_top - _value(theirs[their_rest], their_shift)
        out[7] = sums[0]
        out[8] = sums[1]
        # Equal distributions give exactly 0: the polynomial for the logarithm is a little off.
        out[9] = 0.0 if sums[3] == 0.0 else min(max(0.5 * sums[2], 0.0), _LN_2)
        out[10] = min(0.5 * sums[3], 1.0)
        out[11] = -sums[4]
        out[12] = -sums[5]
        out[13] = our_log - (_value(ours[target], our_shift) - our_top)
        out[14] = their_log - (_value(theirs[target], their_shift) - their_top)
        out[15] = sums[6] / 24.0
