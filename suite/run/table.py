"""The short table at the end of a run: counts, repeat floor, numerical band, and where the bundles lie."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate

from suite.branch.show import summary_line
from suite.bundle.read import Bundle, open_bundle
from suite.replay.table import survival_line
from suite.run.bundling import Measured
from suite.run.execute import RunReport
from suite.score.summary import Headlines

_HEADERS = ("stack", "factor", "flips", "tied", "<0.5", "<0.9", "confident", "mean KL", "rounding", "repeat floor")


def report_table(report: RunReport) -> str:
    """The report as text. Flips are counts of n; classes after `tied` are by the reference's top-1 probability."""
    bundles = {m.name: open_bundle(m.bundle) for m in report.measured if m.bundle is not None}
    rows = [_row(m, bundles.get(m.name)) for m in report.measured]
    parts = [tabulate(rows, headers=_HEADERS, disable_numparse=True)]
    parts += [_below(bundle) for bundle in list(bundles.values())[:1]]
    parts += [_band_line(report, bundles)] if bundles else []
    parts += [summary_line(name, b.record.branches) for name, b in bundles.items() if b.record.branches is not None]
    parts += [
        f"{name}: {survival_line(line)}" for name, bundle in bundles.items() for line in bundle.record.replays or ()
    ]
    parts += [f"{name}: left out: {reason}" for name, reason in report.left_out.items()]
    parts += [f"{name}: {bundle.folder}" for name, bundle in bundles.items()]
    return "\n".join(part for part in parts if part)


def _row(measured: Measured, bundle: Bundle | None) -> tuple[str, ...]:
    floor = measured.floor.text()
    if bundle is None:
        return (measured.name, "(reference)", "", "", "", "", "", "", "", floor)
    record, lines = bundle.record, bundle.record.headlines
    names = ", ".join(f.key for f in record.factors) or "none"
    role = f" [{measured.role}]" if measured.role == "band" else ""
    return (
        measured.name + role,
        names,
        f"{lines.flips} of {lines.n}",
        str(lines.flips_tied),
        str(lines.flips_uncertain),
        str(lines.flips_leaning),
        str(lines.flips_confident),
        f"{lines.kl_ref_cand.mean:.2e}" if lines.kl_ref_cand else "",
        f"{lines.rounding_kl:.2e}" if lines.rounding_kl is not None else "",
        floor,
    )


def _below(bundle: Bundle) -> str:
    lines = bundle.record.headlines
    off = lines.off_policy
    return (
        f"\n{lines.path} path; KL(ref||cand) in nats. Off-policy: at {off.count} of {off.n} positions "
        "the reference's top-1 is not the recorded token." + _replayed_text(lines)
    )


def _replayed_text(lines: Headlines) -> str:
    if not lines.replayed_rows:
        return ""
    return (
        f"\n{lines.replayed_rows} of {lines.n} probes: the reference's row was replayed on another processor than "
        "captured it; flips by the captured ids, KL replayed."
    )


def _band_line(report: RunReport, bundles: dict[str, Bundle]) -> str:
    band = {m.name: m for bundle in bundles.values() for m in bundle.record.band}
    own = [
        f"{m.name} {bundles[m.name].record.headlines.flips} of {bundles[m.name].record.headlines.n}"
        for m in report.measured
        if m.role == "band" and m.name in bundles
    ]
    known = own or [f"{m.name} {m.flips} of {m.n}" for m in band.values()]
    if not known:
        return "Numerical band: not measured (run the manifests of role `band` with the same reference)."
    return f"Numerical band (equally valid stacks against the same reference): {', '.join(known)}."


def report_json(report: RunReport) -> dict[str, Any]:
    """The report as JSON values."""
    measured = []
    for m in report.measured:
        item: dict[str, Any] = {
            "name": m.name,
            "role": m.role,
            "lock_digest": m.lock.digest,
            "repeat_floor": m.floor.model_dump(mode="json"),
            "bundle": None if m.bundle is None else str(m.bundle),
        }
        if m.bundle is not None:
            record = open_bundle(m.bundle).record
            item["headlines"] = record.headlines.model_dump(mode="json")
            item["band"] = [b.model_dump(mode="json") for b in record.band]
            item["factors"] = [f.model_dump(mode="json") for f in record.factors]
            if record.branches is not None:
                item["branches"] = record.branches.model_dump(mode="json")
            if record.replays is not None:
                item["replays"] = [line.model_dump(mode="json") for line in record.replays]
        measured.append(item)
    failed = {name: {"message": str(e), "exit_code": e.exit_code} for name, e in report.failed.items()}
    return {"schema_version": 1, "measured": measured, "failed": failed, "left_out": report.left_out}
