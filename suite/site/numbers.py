"""Numbers as the pages write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NONE = "not measured"


def count(value: int | None) -> str:
    """`7,177`."""
    return NONE if value is None else f"{value:,}"


def share(value: int, n: int) -> str:
    """`5.3 %`; two decimals below 1 %."""
    if not n:
        return ""
    percent = 100 * value / n
    return f"{percent:.2f} %" if 0 < percent < 1 else f"{percent:.1f} %"


def nats(value: float | None) -> str:
    """A divergence, three figures: `0.0243`, `0.00062`; below 0.0001 two: `6.2e-05`."""
    if value is None:
        return "invalid"
    return "0" if value == 0 else f"{value:.1e}" if value < 0.0001 else f"{value:.3g}"


def bound(value: float) -> str:
    """A bound of a count: whole numbers from ten up."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def size(value: int | None) -> str:
    """Bytes: `1.2 MB`."""
    if value is None:
        return NONE
    amount, unit = float(value), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):  # noqa: B007
        if amount < 1000:
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def p_value(value: float) -> str:
    """`p = 0.16`, `p < 0.001`."""
    return f"p = {value:.2g}" if value >= 0.001 else "p < 0.001"


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count,
    "share": share,
    "nats": nats,
    "bound": bound,
    "size": size,
    "p": p_value,
}
