"""A comparison as data: one JSON object, or CSV with the cohort in every row."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

from suite.bundle.arbiter import read_arbiter
from suite.compare.comparison import MUST_NOT, Comparison, band_members, cause, notes, scope
from suite.compare.entries import Entry
from suite.compare.grouping import By, groups
from suite.score.bootstrap import Interval
from suite.score.paired import ALPHA, SignFlip
from suite.score.summary import Headlines

SCHEMA_VERSION = 1
COUNTS = ("flips", "flips_tied", "flips_uncertain", "flips_leaning", "flips_confident")
MEANS = ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation")


def to_json(comparison: Comparison, *, by: By | None = None) -> dict[str, Any]:
    """JSON values; a refused interval or test is null, with the reason in `notes`."""
    ranking, rows = comparison.ranking, comparison.rows
    value: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "scope": scope(comparison),
        "must_not_be_quoted_for": MUST_NOT,
        "cohort": cohort(comparison),
        "sort": ranking.metric.name,
        "alpha": ALPHA,
        "interval_method": rows[0].intervals.told,
        "winner": None if ranking.winner is None else ranking.winner.label,
        "numerical_band": [asdict(member) for member in band_members(comparison)],
        "rows": [_row(comparison, place) for place in range(len(rows))],
        "pairs": [
            {
                "lower": rows[pair.lower].label,
                "higher": rows[pair.higher].label,
                "test": _test(pair.test),
                "p_holm": pair.p_holm,
                "separated": pair.separated,
                "kl_ref_cand": None if pair.kl is None else _test(pair.kl),
            }
            for pair in ranking.pairs
        ],
        "notes": notes(comparison),
    }
    if by is not None:
        value["by"] = by
        value["groups"] = [
            {"key": row.key, "n": row.n, "rows": [cell.model_dump(mode="json") for cell in row.cells]}
            for row in groups(comparison, by)
        ]
    return value


def to_csv(comparison: Comparison, *, by: By | None = None) -> str:
    """One line per row of the table, or with `by` per group and row; every line names its cohort."""
    lines = _csv_rows(comparison) if by is None else _csv_groups(comparison, by)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()


def cohort(comparison: Comparison) -> dict[str, Any]:
    """What all rows have in common, without which no number may be read."""
    first = comparison.rows[0]
    return {
        "n": first.headlines.n,
        "num_turns": first.totals.num_turns if first.totals.known else None,
        "path": first.headlines.path,
        "vocab_size": first.headlines.vocab_size,
        "workload": first.lock.workload.name,
        "tokens_sha256": first.ledger.facts.tokens_sha256,
        "reference_rows_sha256": first.bundle.record.evidence.reference.rows_sha256,
    }


def _row(comparison: Comparison, place: int) -> dict[str, Any]:
    entry, verdict = comparison.rows[place], comparison.kernel[place]
    record, ranks = entry.bundle.record, comparison.ranking.ranks
    headlines = entry.headlines.model_dump(mode="json")
    arbiter = read_arbiter(entry.bundle)
    return {
        "name": record.name,
        "label": entry.label,
        "bundle": entry.bundle.bundle_id,
        "role": entry.lock.role,
        "tier": record.tier,
        "rank": None if ranks is None else ranks[place],
        "factors": [factor.model_dump(mode="json") for factor in record.factors],
        "causal_claim": record.causal_claim,
        "headlines": {key: value for key, value in headlines.items() if not key.startswith("by_")},
        "intervals": {
            **{name: pair_of(entry.intervals.count(name)) for name in COUNTS},
            **{f"{name}_mean": pair_of(entry.intervals.mean(name)) for name in MEANS},
        },
        "repeat_floor": record.repeat_floor.model_dump(mode="json"),
        "kernel_change": {
            "outcome": verdict.outcome,
            "member": verdict.member,
            "member_flips": verdict.member_flips,
            "test": None if verdict.test is None else _test(verdict.test),
            "p_holm": verdict.p_holm,
        },
        "arbiter": None if arbiter is None else [counts.model_dump(mode="json") for counts in arbiter.counts],
        "flips_by_window": [group.flips for group in entry.headlines.by_window],
    }


def _csv_rows(comparison: Comparison) -> list[dict[str, Any]]:
    ranks = comparison.ranking.ranks
    lines = []
    for place, (entry, verdict) in enumerate(zip(comparison.rows, comparison.kernel, strict=True)):
        h = entry.headlines
        low_high = {f"flips_{end}": value for end, value in _ends(entry.intervals.count("flips"))}
        kl_low_high = {f"kl_ref_cand_mean_{end}": value for end, value in _ends(entry.intervals.mean("kl_ref_cand"))}
        lines.append(
            {
                "rank": "" if ranks is None else ranks[place],
                **_named(entry),
                "factor": cause(entry),
                "causal_claim": entry.bundle.record.causal_claim,
                "n": h.n,
                **{name: getattr(h, name) for name in COUNTS},
                **low_high,
                "repeat_floor_flips": " ".join(str(s.flips) for s in entry.bundle.record.repeat_floor.starts[1:]),
                "kernel_change": verdict.outcome,
                "kernel_change_p_holm": "" if verdict.p_holm is None else verdict.p_holm,
                **_divergences(h),
                **kl_low_high,
                "rounding_kl": h.rounding_kl,
                **_cohort_cells(comparison),
            }
        )
    return lines


def _csv_groups(comparison: Comparison, by: By) -> list[dict[str, Any]]:
    return [
        {
            by: row.name,
            **_named(entry),
            "n": cell.n,
            **{name: getattr(cell, name) for name in COUNTS},
            "off_policy": cell.off_policy,
            "kl_ref_cand_mean": cell.kl_ref_cand_mean,
            **_cohort_cells(comparison),
        }
        for row in groups(comparison, by)
        for entry, cell in zip(comparison.rows, row.cells, strict=True)
    ]


def _named(entry: Entry) -> dict[str, Any]:
    return {
        "stack": entry.label,
        "bundle": entry.bundle.bundle_id,
        "role": entry.lock.role,
        "tier": entry.bundle.record.tier,
    }


def _divergences(headlines: Headlines) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name in ("kl_ref_cand", "kl_cand_ref", "jsd"):
        spread = getattr(headlines, name)
        for statistic in ("mean", "median", "p90", "p99", "p999", "max"):
            value = getattr(spread, statistic)
            cells[f"{name}_{statistic}"] = "" if value is None else value
    return cells


def _cohort_cells(comparison: Comparison) -> dict[str, Any]:
    facts = cohort(comparison)
    wanted = ("workload", "path", "vocab_size", "tokens_sha256", "reference_rows_sha256")
    return {key: facts[key] for key in wanted}


def pair_of(interval: Interval | None) -> list[float] | None:
    """`[low, high]`, or None."""
    return None if interval is None else [interval.low, interval.high]


def _ends(interval: Interval | None) -> tuple[tuple[str, float | str], ...]:
    return (("low", "" if interval is None else interval.low), ("high", "" if interval is None else interval.high))


def _test(test: SignFlip) -> dict[str, Any]:
    return asdict(test)
