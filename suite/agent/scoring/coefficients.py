"""Polynomials for exp and log1p in FP64, shared by the compiled kernels.

Each is the polynomial through the function's values at the Chebyshev points of its interval, computed with 60 digits
and then rounded; it is within a small factor of the best of its degree. `tests/agent/scoring/test_coefficients.py`
derives the numbers anew and measures the errors.
"""

from __future__ import annotations

EXP = (
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
)
"""exp(r) for |r| <= ln(2)/2, lowest power first; relative error below 2e-17 before rounding.

With x = k ln 2 + r, k the nearest integer, exp(x) = 2^k exp(r): Cody and Waite (1980), with ln 2 in two parts."""

EXP_DEGREE = len(EXP) - 1

LOG1P = (
    2.5606837539202405e-15,
    0.9999999999983383,
    -0.49999999981980175,
    0.33333332554328043,
    -0.24999982125117357,
    0.1999974860803648,
    -0.16664305730729775,
    0.1427005430929589,
    -0.12423721781358928,
    0.10830398740099796,
    -0.09202214534525542,
    0.07307435308966276,
    -0.05140531769187627,
    0.03018048147100902,
    -0.013850964432876206,
    0.004580733434706547,
    -0.0009603990148664987,
    9.519312536211226e-05,
)
"""ln(1 + t) for 0 <= t <= 1, lowest power first; absolute error below 3e-15. It serves sums of probabilities times this
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
