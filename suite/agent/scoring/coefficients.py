"""Polynomials for exp and log1p in FP64, shared by the compiled kernels.

Each is the polynomial through the function's values at the Chebyshev points of its interval, computed with 60 digits
and then rounded; it is within a small factor of the best of its degree. `tests/agent/scoring/test_coefficients.py`
derives the numbers anew and measures the errors.
"""

from __future__ import annotations

EXP = (
    1.0,
    1.0000000000000067,
    0.5000000000000006,
    0.16666666666554314,
    0.041666666666573066,
    0.008333333385699212,
    0.001388888893251478,
    0.00019841170230570286,
    2.480150431378554e-05,
    2.764019739169484e-06,
    2.7626371065696354e-07,
)
"""exp(r) for |r| <= ln(2)/2, lowest power first; relative error below 4e-16 before rounding.

With x = k ln 2 + r, k the nearest integer, exp(x) = 2^k exp(r): Cody and Waite (1980), with ln 2 in two parts."""

LOG1P = (
    9.765202324307007e-14,
    0.9999999999499122,
    -0.499999995704023,
    0.3333331865801286,
    -0.24999734544062252,
    0.19997068038059437,
    -0.16645152476433805,
    0.14174918037329334,
    -0.1208398093741802,
    0.09939501416745854,
    -0.0746684854852948,
    0.047887798097247636,
    -0.02432077852050061,
    0.008945725158932761,
    -0.0020856089063395304,
    0.00022914404762985286,
)
"""ln(1 + t) for 0 <= t <= 1, lowest power first; absolute error below 1e-13. It serves sums of probabilities times this
value, which need no relative accuracy near t = 0."""

LOG2_E = 1.4426950408889634
LN_2_HIGH = 0.6931471805598903
"""ln 2 cut to 42 bits: its product with any exponent of a double is exact."""
LN_2_LOW = 5.497923018708371e-14
"""ln 2 - `LN_2_HIGH`."""
ROUNDER = 6755399441055744.0
"""1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits of the sum."""
SMALLEST_EXPONENT = -700.0
"""Arguments of exp are raised to this; what lies below, at most 1e-304, then counts as 1e-304."""
