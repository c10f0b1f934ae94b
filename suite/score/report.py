"""The object that `suite score --json` prints, and the same for people."""

from __future__ import annotations

from typing import Any

from suite.bundle.show import Table, of
from suite.score.bootstrap import Interval
from suite.score.intervals import LedgerIntervals
from suite.score.summary import Distribution, Headlines

SCHEMA_VERSION = 1


def counts_line(headlines: Headlines) -> str:
    """The counts in one line, for instance `63 of 995 flips: 0 tied, 62 <0.5, 1 <0.9, 0 confident; mean KL 2.6e-02`."""
    classes = (
        f"{headlines.flips_tied} tied, {headlines.flips_uncertain} <0.5, {headlines.flips_leaning} <0.9, "
        f"{headlines.flips_confident} confident"
    )
    divergence = f"; mean KL {headlines.kl_ref_cand.mean:.2e}" if headlines.kl_ref_cand else ""
    return f"{headlines.flips} of {headlines.n} flips: {classes}{divergence}"


def score_json(headlines: Headlines, intervals: LedgerIntervals) -> dict[str, Any]:
    """JSON values. Natural logarithms; with invalid rows there is no mean; what has no interval is null."""
    means = ("rounding_kl", "nll_ref", "nll_cand", "entropy_ref", "entropy_cand", "top1_agreement")
    spreads = ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation")
    counts = ("flips", "flips_tied", "flips_uncertain", "flips_leaning", "flips_confident")
    value: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "n": headlines.n,
        "vocab_size": headlines.vocab_size,
        "path": headlines.path,
        "tie_rule": headlines.tie_rule,
        "invalid_rows": headlines.invalid_rows,
        "identical_rows": headlines.identical_rows,
        "replayed_rows": headlines.replayed_rows,
        "off_policy": headlines.off_policy.model_dump(),
        "intervals": {
            "flips": _pair(intervals.count("flips")),
            "kl_ref_cand_mean": _pair(intervals.mean("kl_ref_cand")),
        },
        "intervals_told": intervals.told,
    }
    value |= {name: getattr(headlines, name) for name in (*counts, *means)}
    for name in spreads:
        spread = getattr(headlines, name)
        value[name] = None if spread is None else spread.model_dump()
    return value


def count_rows(headlines: Headlines, intervals: LedgerIntervals) -> Table:
    """Name, count of n, 95 % interval."""
    h = headlines
    names = {
        "flips": "flips",
        "flips_tied": "- tied",
        "flips_uncertain": "- uncertain (p < 0.5)",
        "flips_leaning": "- leaning (0.5 to 0.9)",
        "flips_confident": "- confident (p >= 0.9)",
    }
    rows: Table = [
        (words, of(getattr(h, name), h.n), _text(intervals.count(name), digits=3)) for name, words in names.items()
    ]
    rows.append(("identical rows", of(h.identical_rows, h.n), ""))
    if h.replayed_rows:
        rows.append(("replayed rows", f"{of(h.replayed_rows, h.n)}; KL replayed", ""))
    if h.invalid_rows:
        rows.append(("INVALID ROWS", of(h.invalid_rows, h.n), ""))
    return rows


def divergence_rows(headlines: Headlines, intervals: LedgerIntervals) -> Table:
    """Name, mean, 95 % interval of the mean, median, p90, p99, p99.9, max, in nats; no rows with invalid probes."""
    h = headlines
    if h.kl_ref_cand is None or h.kl_cand_ref is None or h.jsd is None or h.total_variation is None:
        return []
    rows: Table = [
        (words, *_spread(spread, intervals.mean(name)))
        for name, words, spread in (
            ("kl_ref_cand", "KL(ref||cand)", h.kl_ref_cand),
            ("kl_cand_ref", "KL(cand||ref)", h.kl_cand_ref),
            ("jsd", "JSD", h.jsd),
        )
    ]
    singles = (
        ("rounding KL", h.rounding_kl, None),
        ("total variation", h.total_variation.mean, intervals.mean("total_variation")),
        ("NLL reference", h.nll_ref, intervals.mean("nll_ref")),
        ("NLL candidate", h.nll_cand, intervals.mean("nll_cand")),
    )
    return rows + [
        (words, "" if value is None else f"{value:.4g}", _text(interval), "", "", "", "", "")
        for words, value, interval in singles
    ]


def _spread(values: Distribution, interval: Interval | None) -> tuple[str, ...]:
    p999 = "n < 10,000" if values.p999 is None else f"{values.p999:.4g}"
    middle = (f"{value:.4g}" for value in (values.median, values.p90, values.p99))
    return (f"{values.mean:.4g}", _text(interval), *middle, p999, f"{values.max:.4g}")


def _text(interval: Interval | None, *, digits: int = 2) -> str:
    return "" if interval is None else f"[{interval.low:.{digits}g}, {interval.high:.{digits}g}]"


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
