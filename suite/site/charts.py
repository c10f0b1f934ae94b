"""Geometry of the charts, computed once on the server; templates draw it as SVG with classes, never with styles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.site.facts import BundleFacts, WindowFacts
from suite.site.standing import PrivateFacts

CLASSES = ("tied", "uncertain", "leaning", "confident")
"""Flip classes in the order in which they are drawn."""
STRIP_BINS = 600
_LONGEST_LABEL = 26
HISTOGRAM_EDGES = tuple(10 ** (k / 4) for k in range(-32, 9))
"""Quarter decades from 1e-8 to 100 nats; what lies below or above falls into the first or last bin."""

Counted = BundleFacts | WindowFacts | PrivateFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A piece of a bar."""

    kind: str
    x: float
    width: float
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalRow:
    """One stack as a dot with its interval."""

    bundle: BundleFacts
    label: str
    y: float
    dot: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalChart:
    """Stacks one below the other on one axis of counts, with the numerical band behind them."""

    width: int
    height: int
    left: int
    rows: tuple[IntervalRow, ...]
    ticks: tuple[Tick, ...]
    band: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """Vertical bars of one series."""

    width: int
    height: int
    bars: tuple[tuple[float, float, float, float, int], ...]
    """x, y, width, height, count."""
    ticks: tuple[Tick, ...]
    marks: tuple[Tick, ...] = ()


def class_bar(counts: Counted, *, top: int, width: float = 100.0) -> tuple[Part, ...]:
    """A bar whose length is the flips' share of `top`, cut into the four classes.

    Args:
        counts: Flips by class.
        top: Flips of the longest bar; at least 1.
        width: Of the longest bar.
    """
    parts, x = [], 0.0
    for kind in CLASSES:
        number = getattr(counts, f"flips_{kind}")
        length = number / max(top, 1) * width
        if number:
            parts.append(Part(kind=kind, x=round(x, 2), width=round(length, 2), count=number))
        x += length
    return tuple(parts)


def interval_chart(bundles: Sequence[BundleFacts], names: Mapping[str, str], *, width: int = 500) -> IntervalChart:
    """Flips with their intervals on a scale of log(1 + count), so that 0 and 1,000 both have a place.

    Args:
        bundles: Rows from top to bottom, all of one table.
        names: Short name of each bundle's name; a long one is cut, and stands whole in the table.
        width: Of the drawing; narrow, so that its letters can be read on a phone.
    """
    labels = [_cut(names[bundle.name]) for bundle in bundles]
    left = 22 + round(6.8 * max(map(len, labels)))
    highest = max([1.0, *(max(b.flips, b.flips_interval[1] if b.flips_interval else 0) for b in bundles)])
    right, row, head = width - 14, 22, 20
    scale = (right - left) / math.log10(1 + highest)

    def place(value: float) -> float:
        return round(left + scale * math.log10(1 + max(value, 0.0)), 1)

    rows = tuple(
        IntervalRow(
            bundle=bundle,
            label=label,
            y=head + row * (number + 0.5),
            dot=place(bundle.flips),
            low=place(bundle.flips_interval[0]) if bundle.flips_interval else None,
            high=place(bundle.flips_interval[1]) if bundle.flips_interval else None,
        )
        for number, (bundle, label) in enumerate(zip(bundles, labels, strict=True))
    )
    values = [0, *(step * 10**power for power in range(9) for step in (1, 3) if step * 10**power <= highest)]
    band = [bundle.flips for bundle in bundles if bundle.is_band]
    return IntervalChart(
        width=width,
        height=head + row * len(bundles) + 6,
        left=left,
        rows=rows,
        ticks=tuple(Tick(at=place(value), label=f"{value:,}") for value in values),
        band=(place(min(band)), place(max(band))) if band else None,
    )


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


def histogram(counts: Sequence[int], *, rounding: float | None, width: int = 500, height: int = 110) -> Bars:
    """The distribution of a divergence over probes.

    Args:
        counts: Per bin of `HISTOGRAM_EDGES`.
        rounding: Mean KL of rounding alone, marked on the axis.
        width: Of the drawing.
        height: Of the drawing without its axis.
    """
    each, top = width / len(counts), max([*counts, 1])
    bars = tuple(
        (round(i * each, 2), round(height - c / top * height, 2), round(each - 1, 2), round(c / top * height, 2), c)
        for i, c in enumerate(counts)
        if c
    )

    def place(value: float) -> float:
        bins = 4 * (math.log10(value) + 8)
        return round(min(max(bins * each, 0.0), width), 1)

    ticks = tuple(Tick(at=place(10.0**power), label=f"1e{power}" if power else "1") for power in range(-8, 1, 2))
    marks = (Tick(at=place(rounding), label="rounding alone"),) if rounding else ()
    return Bars(width=width, height=height, bars=bars, ticks=ticks, marks=marks)


def strip_paths(strip: str, *, width: int = 1200, height: int = 34) -> tuple[tuple[str, str], ...]:
    """Where in the session the flips are: for each class, the path of its ticks.

    Args:
        strip: One letter for each bin: `.` none, else the first letter of the gravest class in it.
        width: Of the drawing.
        height: Of the longest tick; ties are shorter than confident flips.
    """
    heights = {"tied": 0.4, "uncertain": 0.6, "leaning": 0.8, "confident": 1.0}
    each = width / max(len(strip), 1)
    paths = []
    for kind in CLASSES:
        tall = round(height * heights[kind], 1)
        ticks = [
            f"M{round(place * each + each / 2, 1):g} {height}v-{tall:g}"
            for place, letter in enumerate(strip)
            if letter == kind[0]
        ]
        if ticks:
            paths.append((kind, "".join(ticks)))
    return tuple(paths)
