"""Headlines: counts with n, and distributions, recomputed from the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from suite.capture.index import CapturePath, Count
from suite.errors import RunFailed
from suite.score.classes import FLIP_CLASSES
from suite.score.ledger import TIE_RULE, Ledger

P999_FROM_PROBES = 10_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Distribution(_Strict):
    """One divergence over all probes, in nats. Quantiles interpolate linearly between order statistics."""

    mean: float
    median: float
    p90: float
    p99: float
    p999: float | None
    """None below 10,000 probes."""
    max: float


class Mean(_Strict):
    """A mean alone."""

    mean: float


class OffPolicy(_Strict):
    """At how many of n probes the reference's top-1 is not the recorded token."""

    count: Count
    n: Count


class Group(_Strict):
    """Counts of one window, range, turn or span kind."""

    key: int | Annotated[str, Field(max_length=40)]
    """Window, range or turn number (-1: none), or span kind (empty: none)."""
    n: Count
    invalid_rows: Count
    flips: Count
    flips_tied: Count
    flips_uncertain: Count
    flips_leaning: Count
    flips_confident: Count
    off_policy: Count
    kl_ref_cand_mean: float | None
    """None where a row is not finite."""


class Headlines(_Strict):
    """What is quoted. Every number follows from the ledger; with invalid rows there is no mean at all."""

    n: Count
    vocab_size: Count
    path: CapturePath
    tie_rule: Literal["lowest_id"]
    invalid_rows: Count
    identical_rows: Count
    replayed_rows: Count
    """Probes with a row that was recomputed on other hardware than captured it: flips by the captured ids, divergences
    by the recomputed row."""
    flips: Count
    flips_tied: Count
    flips_uncertain: Count
    flips_leaning: Count
    flips_confident: Count
    top1_agreement: float | None
    """(n - flips) / n."""
    kl_ref_cand: Distribution | None
    kl_cand_ref: Distribution | None
    jsd: Distribution | None
    total_variation: Mean | None
    entropy_ref: float | None
    entropy_cand: float | None
    nll_ref: float | None
    nll_cand: float | None
    rounding_kl: float | None
    """Mean KL that the rounding of both sides' rows alone would make; stands beside the mean KL."""
    off_policy: OffPolicy
    by_window: tuple[Group, ...]
    by_range: tuple[Group, ...]
    by_turn: tuple[Group, ...]
    by_span: tuple[Group, ...]


def summarise(ledger: Ledger) -> Headlines:
    """All headlines of one ledger.

    Sums are exactly rounded (`math.fsum`), so that the same ledger gives the same numbers on every machine.
    """
    columns = ledger.columns
    n = ledger.num_rows
    valid = columns["finite_ref"] & columns["finite_cand"]
    invalid = int((~valid).sum())
    quotable = n > 0 and invalid == 0
    off_policy, flips = _off_policy(ledger), _flips(ledger)
    counts = {name: int(chosen.sum()) for name, chosen in flips.items()}
    marked = flips | {"invalid_rows": ~valid, "off_policy": off_policy}

    def mean(name: str) -> float | None:
        return _mean(columns[name]) if quotable else None

    def spread(name: str) -> Distribution | None:
        return _distribution(columns[name]) if quotable else None

    return Headlines(
        n=n,
        vocab_size=ledger.facts.vocab_size,
        path=ledger.facts.path,
        tie_rule=TIE_RULE,
        invalid_rows=invalid,
        identical_rows=int((columns["ref_row_sha256"] == columns["cand_row_sha256"]).all(axis=1).sum()),
        replayed_rows=int(columns["replayed"].sum()),
        **counts,
        top1_agreement=(n - counts["flips"]) / n if quotable else None,
        kl_ref_cand=spread("kl_ref_cand"),
        kl_cand_ref=spread("kl_cand_ref"),
        jsd=spread("jsd"),
        total_variation=Mean(mean=_mean(columns["total_variation"])) if quotable else None,
        entropy_ref=mean("entropy_ref"),
        entropy_cand=mean("entropy_cand"),
        nll_ref=mean("nll_ref"),
        nll_cand=mean("nll_cand"),
        rounding_kl=mean("rounding_kl"),
        off_policy=OffPolicy(count=int(off_policy.sum()), n=n),
        by_window=_groups(ledger, "window", marked),
        by_range=_groups(ledger, "range_index", marked),
        by_turn=_groups(ledger, "turn", marked),
        by_span=_groups(ledger, "span_kind", marked),
    )


def require_valid(headlines: Headlines) -> None:
    """Refuse headlines of a run in which a row was not finite.

    Raises:
        RunFailed: with the count.
    """
    if headlines.invalid_rows:
        raise RunFailed(
            f"{headlines.invalid_rows} of {headlines.n} probes have a row with NaN or an infinity; the run is invalid",
            hint="the stack computes garbage: check its kernels and dtypes; no mean is given",
        )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (definition 7 of Hyndman and Fan, 1996).

    Args:
        ordered: At least one number, ascending.
        share: Between 0 and 1.
    """
    place = (len(ordered) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _mean(values: NDArray[Any]) -> float:
    return math.fsum(values.tolist()) / len(values)


def _distribution(values: NDArray[Any]) -> Distribution:
    ordered = np.sort(values).tolist()
    return Distribution(
        mean=_mean(values),
        median=quantile(ordered, 0.5),
        p90=quantile(ordered, 0.9),
        p99=quantile(ordered, 0.99),
        p999=quantile(ordered, 0.999) if len(ordered) >= P999_FROM_PROBES else None,
        max=ordered[-1],
    )


def _off_policy(ledger: Ledger) -> NDArray[np.bool_]:
    columns = ledger.columns
    known = columns["ref_top1"] >= 0
    differs: NDArray[np.bool_] = known & (columns["ref_top1"] != columns["target_id"])
    return differs


def _flips(ledger: Ledger) -> dict[str, NDArray[np.bool_]]:
    """Field of a count of flips -> at which probes they are."""
    flips, classes = ledger.columns["flip"], ledger.columns["flip_class"]
    return {"flips": flips, **{f"flips_{name}": flips & (classes == name) for name in FLIP_CLASSES}}


def _groups(ledger: Ledger, column: str, marked: dict[str, NDArray[np.bool_]]) -> tuple[Group, ...]:
    """One group for each value of a column.

    Args:
        ledger: All probes.
        column: Its name.
        marked: Field of a count -> at which probes it counts.
    """
    keys, place = np.unique(ledger.columns[column], return_inverse=True)
    sizes = np.bincount(place, minlength=len(keys))
    counts = {name: np.bincount(place[chosen], minlength=len(keys)).tolist() for name, chosen in marked.items()}
    ordered = ledger.columns["kl_ref_cand"][np.argsort(place, kind="stable")]
    divergences = np.split(ordered, np.cumsum(sizes)[:-1])
    return tuple(
        Group(
            key=key,
            n=size,
            kl_ref_cand_mean=None if counts["invalid_rows"][i] else _mean(divergences[i]),
            **{name: values[i] for name, values in counts.items()},
        )
        for i, (key, size) in enumerate(zip(keys.tolist(), sizes.tolist(), strict=True))
    )
