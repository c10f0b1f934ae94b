"""A lint report as lines for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suite.bundle.show import shown
from suite.card.claims import Claim
from suite.card.lint import FieldReport, Report

SCHEMA_VERSION = 1
_CLAIMS_SHOWN = 12


def lines(report: Report) -> Iterator[str]:
    """Claims, then fields with where they are disclosed, then errors and warnings."""
    if not report.claims:
        yield "no divergence claim: nothing to disclose"
        return
    yield f"{len(report.claims):,} divergence claim{'' if len(report.claims) == 1 else 's'}"
    for claim in report.claims[:_CLAIMS_SHOWN]:
        yield f"  line {claim.line}: {_told(claim)}"
    if len(report.claims) > _CLAIMS_SHOWN:
        yield f"  and {len(report.claims) - _CLAIMS_SHOWN:,} more"
    disclosed = [item for item in report.fields if item.status == "disclosed"]
    yield f"disclosed: {', '.join(f'{i.field.title} ({_where(i)})' for i in disclosed) or 'nothing'}"
    for finding in report.findings:
        place = f" (line {finding.line})" if finding.line else ""
        yield f"{finding.level}: {shown(finding.message, limit=300)}{place}"
        if finding.advice:
            yield f"  write {finding.advice}" if finding.code == "missing" else f"  {finding.advice}"
    warnings = len(report.findings) - report.num_errors
    yield f"{_count(report.num_errors, 'error')}, {_count(warnings, 'warning')}"


def to_json(report: Report, *, file: str) -> dict[str, Any]:
    """The whole report as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "file": file,
        "claims": [_claim(claim) for claim in report.claims],
        "fields": [
            {
                "field": item.field.name,
                "title": item.field.title,
                "level": item.field.level,
                "status": item.status,
                "found": [
                    {
                        "value": d.value,
                        "side": d.side,
                        "line": d.statement.line,
                        "counts": not d.partial,
                        "lacking": d.partial or None,
                    }
                    for d in item.found
                ],
            }
            for item in report.fields
        ],
        **{
            status.replace(" ", "_"): [item.field.name for item in report.fields if item.status == status]
            for status in ("disclosed", "missing", "contradictory", "not needed")
        },
        "findings": [
            {
                "level": f.level,
                "code": f.code,
                "field": f.field,
                "line": f.line,
                "message": f.message,
                "advice": f.advice or None,
            }
            for f in report.findings
        ],
        "errors": report.num_errors,
        "warnings": len(report.findings) - report.num_errors,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "metric": claim.metric,
        "statistic": claim.statistic,
        "quantile": claim.quantile or None,
        "value": claim.value,
        "unit": claim.unit or None,
        "n": claim.n,
        "line": claim.line,
    }


def _told(claim: Claim) -> str:
    statistic = {"unstated": "", "quantile": f"p{claim.quantile} "}.get(claim.statistic, f"{claim.statistic} ")
    of = "" if claim.n is None else f" of {claim.n:,}" if claim.statistic == "count" else f" (n = {claim.n:,})"
    unit = f" {claim.unit}" if claim.unit else ""
    return f"{statistic}{claim.metric} {claim.value:g}{unit}{of}"


def _where(item: FieldReport) -> str:
    return f"line {item.found[0].statement.line}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
