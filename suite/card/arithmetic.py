"""Figures of a card that cannot be: counts and shares, quantiles out of order, units that change."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from suite.card.claims import Claim, count_of
from suite.card.contradiction import Contradiction, error
from suite.card.document import Document
from suite.card.numbers import find_numbers

_NEGATIVE = {"kl", "jsd", "total variation", "flips", "top-1 agreement"}


def impossible(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """Figures outside of what their metric can be."""
    for claim in claims:
        if claim.value < 0 and claim.metric in _NEGATIVE:
            yield error("negative", f"{claim.metric} of {claim.value:g}: it cannot be negative", claim.line)
        if claim.unit == "%" and claim.value > 100 and claim.metric in ("flips", "top-1 agreement"):
            yield error("over 100 %", f"{claim.metric} of {claim.value:g} %", claim.line)
        if claim.metric == "flips" and claim.unit == "" and claim.n is not None and claim.value > claim.n:
            yield error("more than n", f"{claim.value:g} flips of {claim.n:,} positions", claim.line)
        if claim.metric == "jsd" and claim.unit in ("", "nats") and claim.value > math.log(2) + claim.step:
            yield error("over ln 2", f"a Jensen-Shannon divergence of {claim.value:g} nats is above ln 2", claim.line)


def whole_counts(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """Every percentage of n positions is a whole number of them."""
    for claim in claims:
        if claim.unit != "%" or claim.n is None or claim.approximate or not 0 <= claim.value <= 100:
            continue
        if claim.metric not in ("flips", "top-1 agreement"):
            continue
        half = claim.step / 2 * 1.0001
        low, high = (claim.value - half) * claim.n / 100, (claim.value + half) * claim.n / 100
        if math.ceil(low) > math.floor(high):
            below, above = math.floor(claim.value * claim.n / 100), math.ceil(claim.value * claim.n / 100)
            digits = max(0, round(-math.log10(claim.step)))
            yield error(
                "no whole count",
                f"{claim.value:.{digits}f} % of {claim.n:,} is no whole number of positions: {below:,} are "
                f"{100 * below / claim.n:.{digits + 1}f} %, {above:,} are {100 * above / claim.n:.{digits + 1}f} %",
                claim.line,
                field="positions_n",
            )


def count_and_share(document: Document) -> Iterator[Contradiction]:
    """`156 of 7,114 (2.5 %)`: the share must follow from the count."""
    for statement in document.statements:
        counted = count_of(statement.text, comma=False)
        if counted is None or not counted[1].value:
            continue
        count, n = counted
        tail = statement.text[count.start :]
        # A share belongs to the count if it stands in the same breath.
        share = next((x for x in find_numbers(tail) if x.unit == "%" and x.start <= count.end - count.start + 28), None)
        between = tail[: share.start] if share else ""
        if share is None or re.search(r"\d\s?[-–]\s?$|95|±", between[-6:]) or re.search(r"[.;](?:\s|$)", between):
            continue
        true = 100 * count.value / n.value
        if abs(true - share.value) > share.step * 1.01 and abs(100 - true - share.value) > share.step * 1.01:
            yield error(
                "count and share",
                f"{count.value:,.0f} of {n.value:,.0f} is {true:.2f} %, not {share.value:g} %",
                statement.line,
                field="positions_n",
            )


def order_of_statistics(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """Median <= p90 <= p99 <= max and mean <= max, for the figures of one row, sentence or list of output."""
    groups: dict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for claim in claims:
        where = claim.statement
        place: tuple[object, ...] = ("at", where.line) if where.table is None else ("row", where.table, where.row)
        if where.kind == "data":
            place = ("data", " ".join(where.label.split()[:-1]))
        direction = re.search(r"\([^)]*(?:\|\||‖)[^)]*\)", where.said)
        groups[(claim.metric, claim.unit, direction[0] if direction else "", *place)].append(claim)
    for group in groups.values():
        ranked = sorted(
            ((_rank(claim), claim) for claim in group if _rank(claim) is not None), key=lambda pair: pair[0] or 0
        )
        for (low_rank, low), (high_rank, high) in pairwise(ranked):
            if low_rank != high_rank and low.value > high.value + max(low.step, high.step) / 2:
                yield error(
                    "order of statistics",
                    f"{low.metric}: the {_name(low)} ({low.value:g}) is above the {_name(high)} ({high.value:g})",
                    high.line,
                )
        means = [claim for claim in group if claim.statistic == "mean"]
        for mean, most in product(means, [claim for claim in group if claim.statistic == "max"]):
            if mean.value > most.value + most.step / 2:
                yield error(
                    "order of statistics",
                    f"{mean.metric}: the mean ({mean.value:g}) is above the maximum ({most.value:g})",
                    mean.line,
                )


def _rank(claim: Claim) -> float | None:
    if claim.statistic == "median":
        return 50.0
    if claim.statistic == "max":
        return 100.0
    if claim.statistic == "quantile" and claim.quantile:
        digits = claim.quantile
        # p999 is the 99.9th.
        return float(digits) if "." in digits or len(digits) <= 2 else float(f"{digits[:2]}.{digits[2:]}")
    return None


def _name(claim: Claim) -> str:
    return (
        f"{claim.quantile} % quantile"
        if claim.statistic == "quantile"
        else {"max": "maximum"}.get(claim.statistic, claim.statistic)
    )


def flips_and_agreement(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """Percentages of flips and of agreement, in one row or line, that are not 100 % together."""
    rows: dict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for claim in claims:
        where = claim.statement
        rows[(where.table, where.row) if where.table is not None else ("line", where.line, where.section)].append(claim)
    for row in rows.values():
        flips = [c for c in row if c.metric == "flips" and c.unit == "%"]
        same = [c for c in row if c.metric == "top-1 agreement" and c.unit == "%"]
        for flip, agreement in product(flips[:1], same[:1]):
            if abs(flip.value + agreement.value - 100) > (flip.step + agreement.step) * 0.51:
                yield error(
                    "flips and agreement",
                    f"{flip.value:g} % flips and {agreement.value:g} % agreement do not add up to 100 %",
                    flip.line,
                )


def units(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """KL in nats at one place and in bits at another."""
    found: dict[str, Claim] = {}
    for claim in claims:
        if claim.metric == "kl" and claim.unit in ("nats", "mnats", "bits"):
            found.setdefault("bits" if claim.unit == "bits" else "nats", claim)
    if len(found) == 2:
        first, second = sorted(found.values(), key=lambda claim: claim.line)
        yield error(
            "units", f"KL in {first.unit} on line {first.line} and in {second.unit} on line {second.line}", second.line
        )
