"""The statistics that llama-perplexity prints, under its names, with its own formulas for what stands after ±.

Its formulas take the n rows as independent draws. With x̄ the mean of x and x²̄ that of x²:

- ± of a mean: sqrt((x²̄ - x̄²)/(n - 1)), the standard error; 0 for n <= 10.
- PPL = exp(mean NLL); ± by first-order propagation: PPL · ±(mean NLL).
- covariance of the two mean NLLs: (ab̄ - ā·b̄)/(n - 1); correlation: that over the product of their ±.
- ln(PPL(Q)/PPL(base)): difference of the means; ± = sqrt(σ_Q² + σ_base² - 2 cov).
- PPL(Q)/PPL(base): exp of it; ± = ratio · ±(ln ratio).
- PPL(Q)-PPL(base): ± = sqrt(±PPL(Q)² + ±PPL(base)² - 2 · PPL(Q) · PPL(base) · cov).
- RMS Δp = sqrt(mean Δp²); ± = ±(mean Δp²)/(2 · RMS).
- Same top p: k/n; ± = sqrt(p (1 - p)/(n - 1)).
- quantiles interpolate linearly at fraction · (n - 1), in float32; the median is the middle value, or the mean of two.

Text of one session is not independent rows: for intervals that resample chunks see `suite score`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from suite.errors import InvalidInput
from suite.llama.pair import PairColumns

PRINTED_FROM_ROWS = 100
"""llama-perplexity prints no summary for fewer rows."""

_FEW_ROWS = 10

Section = Literal["Perplexity", "KL divergence", "Token probability"]
KLD_QUANTILES = ("99.9%", "99.0%", "95.0%", "90.0%", "Median", "10.0%", "5.0%", "1.0%", "0.1%")
DELTA_P_QUANTILES = ("99.9%", "99.0%", "95.0%", "90.0%", "75.0%", "Median", "25.0%", "10.0%", "5.0%", "1.0%", "0.1%")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One printed line."""

    section: Section
    name: str
    """As printed, with single spaces: `Mean PPL(Q)`, `99.9% KLD`, `RMS Δp`."""
    value: float
    """In per cent where `unit` says so, else as it is."""
    half_width: float | None = None
    """What stands after ±; None where nothing does."""
    unit: Literal["", "%"] = ""


def half_width_of_mean(mean: float, mean_of_squares: float, num_rows: int) -> float:
    """± of a mean of `num_rows` values: sqrt((x²̄ - x̄²)/(n - 1)); 0 for 10 rows or fewer."""
    variance = mean_of_squares - mean * mean
    return math.sqrt(variance / (num_rows - 1)) if variance > 0 and num_rows > _FEW_ROWS else 0.0


def half_width_of_share(share: float, num_rows: int) -> float:
    """± of a share of `num_rows` rows: sqrt(p (1 - p)/(n - 1))."""
    return math.sqrt(share * (1 - share) / (num_rows - 1)) if num_rows > 1 else 0.0


def half_width_of_difference(first: float, second: float, covariance: float) -> float:
    """± of a difference of two correlated values: sqrt(a² + b² - 2 cov)."""
    return math.sqrt(max(0.0, first * first + second * second - 2 * covariance))


def quantile(ordered: NDArray[np.float32], fraction: float) -> float:
    """Linear interpolation at fraction · (n - 1), with place and weights in float32 as the tool has them.

    Args:
        ordered: [n], ascending.
        fraction: Between 0 and 1.
    """
    place = np.float32(fraction) * np.float32(len(ordered) - 1)
    low = int(place)
    weight = np.float32(place - np.float32(low))
    high = min(low + 1, len(ordered) - 1)
    return float((np.float32(1) - weight) * ordered[low] + weight * ordered[high])


def summary_statistics(columns: PairColumns) -> tuple[Figure, ...]:
    """All lines of the summary, in the order in which they are printed.

    Raises:
        InvalidInput: no rows.
    """
    if not len(columns):
        raise InvalidInput("no rows, so no statistics")
    return (*_perplexity(columns), *_kld(columns), *_token_probability(columns))


def _perplexity(columns: PairColumns) -> list[Figure]:
    n = len(columns)
    q, base = columns.nll_q, columns.nll_base
    mean_q, mean_base = float(q.mean()), float(base.mean())
    error_q = half_width_of_mean(mean_q, float((q * q).mean()), n)
    error_base = half_width_of_mean(mean_base, float((base * base).mean()), n)
    covariance = (float((q * base).mean()) - mean_q * mean_base) / (n - 1) if n >= _FEW_ROWS else 0.0
    product = error_q * error_base
    ppl_q, ppl_base = math.exp(mean_q), math.exp(mean_base)
    log_ratio = mean_q - mean_base
    log_ratio_error = half_width_of_difference(error_q, error_base, covariance)
    difference_error = half_width_of_difference(ppl_q * error_q, ppl_base * error_base, ppl_q * ppl_base * covariance)
    lines = [
        ("Mean PPL(Q)", ppl_q, ppl_q * error_q),
        ("Mean PPL(base)", ppl_base, ppl_base * error_base),
        ("Cor(ln(PPL(Q)), ln(PPL(base)))", 100 * covariance / product if product else math.nan, None),
        ("Mean ln(PPL(Q)/PPL(base))", log_ratio, log_ratio_error),
        ("Mean PPL(Q)/PPL(base)", math.exp(log_ratio), math.exp(log_ratio) * log_ratio_error),
        ("Mean PPL(Q)-PPL(base)", ppl_q - ppl_base, difference_error),
    ]
    return [
        Figure(
            section="Perplexity", name=name, value=value, half_width=error, unit="%" if name.startswith("Cor") else ""
        )
        for name, value, error in lines
    ]


def _kld(columns: PairColumns) -> list[Figure]:
    kld = columns.kld
    mean = float(kld.mean())
    ordered = np.sort(kld.astype(np.float32))
    figures: list[tuple[str, float, float | None]] = [
        ("Mean KLD", mean, half_width_of_mean(mean, float((kld * kld).mean()), len(kld)))
    ]
    figures += [(f"{name} KLD", value, None) for name, value in _spread(ordered, KLD_QUANTILES)]
    return [Figure(section="KL divergence", name=name, value=value, half_width=error) for name, value, error in figures]


def _token_probability(columns: PairColumns) -> list[Figure]:
    n, delta = len(columns), columns.delta_p
    mean, mean_square = float(delta.mean()), float((delta**2).mean())
    ordered = np.sort(delta.astype(np.float32))
    rms = math.sqrt(mean_square)
    square_error = half_width_of_mean(mean_square, float((delta**4).mean()), n)
    share = float(columns.same_top.mean())
    figures: list[tuple[str, float, float | None]] = [("Mean Δp", mean, half_width_of_mean(mean, mean_square, n))]
    figures += [(f"{name} Δp", value, None) for name, value in _spread(ordered, DELTA_P_QUANTILES)]
    figures.append(("RMS Δp", rms, square_error / (2 * rms) if rms else 0.0))
    figures.append(("Same top p", share, half_width_of_share(share, n)))
    return [
        Figure(
            section="Token probability",
            name=name,
            value=100 * value,
            half_width=None if error is None else 100 * error,
            unit="%",
        )
        for name, value, error in figures
    ]


def _spread(ordered: NDArray[np.float32], names: tuple[str, ...]) -> list[tuple[str, float]]:
    n = len(ordered)
    median = float(ordered[n // 2]) if n % 2 else float(np.float32(0.5) * (ordered[n // 2] + ordered[n // 2 - 1]))
    inner = [
        (name, median if name == "Median" else quantile(ordered, float(name.removesuffix("%")) / 100)) for name in names
    ]
    return [("Maximum", float(ordered[-1])), *inner, ("Minimum", float(ordered[0]))]
