"""The polynomials are derived anew, in 60-digit decimals, and their errors measured."""

from decimal import Decimal, localcontext

import pytest

from suite.agent.scoring import coefficients

# cos and ln by decimal arithmetic alone; pi to 60 digits.
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def cosine(x: Decimal) -> Decimal:
    term, total, n = Decimal(1), Decimal(1), 0
    while abs(term) > Decimal("1e-58"):
        n += 2
        term *= -x * x / (n * (n - 1))
        total += term
    return total


def through_chebyshev_points(function, low: Decimal, high: Decimal, degree: int) -> list[Decimal]:
    """Coefficients, lowest power first, of the polynomial through the function at the Chebyshev points."""
    angles = [PI * (2 * i + 1) / (2 * (degree + 1)) for i in range(degree + 1)]
    points = [(low + high) / 2 + (high - low) / 2 * cosine(angle) for angle in angles]
    divided = [function(x) for x in points]
    for order in range(1, degree + 1):
        for i in range(degree, order - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (points[i] - points[i - order])
    result = [divided[degree]]
    for i in range(degree - 1, -1, -1):  # times (x - points[i]), plus the next difference
        result = [Decimal(0), *result]
        for j in range(len(result) - 1):
            result[j] -= points[i] * result[j + 1]
        result[0] += divided[i]
    return result


def value(polynomial, x: Decimal) -> Decimal:
    total = Decimal(0)
    for coefficient in reversed(polynomial):
        total = total * x + Decimal(coefficient)
    return total


@pytest.fixture(autouse=True)
def digits():
    with localcontext() as context:
        context.prec = 60
        yield


def test_exponential():
    edge = Decimal(2).ln() / 2 * Decimal("1.0001")
    derived = through_chebyshev_points(lambda x: x.exp(), -edge, edge, len(coefficients.EXP) - 1)
    assert [float(c) for c in derived] == list(coefficients.EXP)
    places = [edge * i / 300 for i in range(-300, 301)]
    assert max(abs(value(coefficients.EXP, x) / x.exp() - 1) for x in places) < Decimal("4e-16")


def test_logarithm():
    derived = through_chebyshev_points(lambda t: (1 + t).ln(), Decimal(0), Decimal(1), len(coefficients.LOG1P) - 1)
    assert [float(c) for c in derived] == list(coefficients.LOG1P)
    places = [Decimal(i) / 300 for i in range(301)]
    assert max(abs(value(coefficients.LOG1P, t) - (1 + t).ln()) for t in places) < Decimal("1e-13")


def test_constants():
    exact = Decimal(2).ln()
    assert float(1 / exact) == coefficients.LOG2_E
    assert float(int(exact * 2**42)) / 2**42 == coefficients.LN_2_HIGH
    assert float(exact - Decimal(coefficients.LN_2_HIGH)) == coefficients.LN_2_LOW
    assert coefficients.ROUNDER == 1.5 * 2**52
