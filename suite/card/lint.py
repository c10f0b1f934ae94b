"""What a card's divergence claims disclose, what they lack, and what contradicts what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from suite.card.claims import Claim, find_claims
from suite.card.contradictions import find_contradictions
from suite.card.disclosure import Disclosure
from suite.card.document import Document, Statement, read_document
from suite.card.fields import FIELDS, Field, Level
from suite.card.stack_finders import weights_of
from suite.card.words import MEASURING, USING

Status = Literal["disclosed", "missing", "contradictory", "not needed"]

_OVERLAP = re.compile(
    r"wiki[-. ]?text|wiki\.\w+\.raw|\bC4\b|\bPile\b|ultrachat|red ?pajama|fineweb|same (?:text|data)", re.IGNORECASE
)
_UNKNOWN = re.compile(
    r"^\W*(?:n/?a|tbd|todo|none given|-|–|—|\?+)?\W*$|\b(?:unknown|unspecified|not (?:stated|known|recorded"
    r"|disclosed|specified|reported|logged)"
    r"|unbekannt|inconnue?|desconocid[oa])\b|未知",
    re.IGNORECASE,
)
_ANYWHERE = frozenset({"reference_revision", "candidate_revision", "reference_dtype", "calibration"})
"""Fields that a card may disclose in any section: a checkpoint is one thing, however it is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldReport:
    """One field of the lint."""

    field: Field
    status: Status
    found: tuple[Disclosure, ...]
    """What counts; for a missing field what does not, with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One error or warning."""

    level: Level
    code: str
    """`missing`, `percentage without n`, `said twice`, ..."""
    field: str | None
    line: int | None
    message: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The lint of one card."""

    claims: tuple[Claim, ...]
    fields: tuple[FieldReport, ...]
    findings: tuple[Finding, ...]

    @property
    def num_errors(self) -> int:
        """Findings that are errors."""
        return sum(finding.level == "error" for finding in self.findings)


def lint_file(path: Path) -> Report:
    """Lint one card.

    Raises:
        InvalidInput: see `suite.card.document.read_document`.
    """
    return lint(read_document(path))


def lint(document: Document) -> Report:
    """Lint a parsed card; without a divergence claim there is nothing to disclose and nothing to find."""
    claims = find_claims(document)
    if not claims:
        return Report(claims=(), fields=(), findings=())
    near = _near(document, claims)
    found: dict[str, list[Disclosure]] = {}
    for field in FIELDS:
        statements = document.statements if field.name in _ANYWHERE else near
        found[field.name] = [item for statement in statements for item in field.find(statement)]
    found = {name: [_answered(item) for item in items] for name, items in found.items()}
    full = {name: [item for item in items if not item.partial] for name, items in found.items()}
    for claim in claims:
        if claim.n is not None and not full["positions_n"]:
            full["positions_n"] = [Disclosure(value=str(claim.n), statement=claim.statement)]
        if claim.statistic not in ("unstated", "count") or (claim.statistic == "count" and claim.n is not None):
            full["aggregation"].append(Disclosure(value=claim.statistic, statement=claim.statement))
    contradictions = find_contradictions(document, claims, full, [field.name for field in FIELDS if field.single])
    reports = tuple(
        FieldReport(
            field=field,
            status=_status(
                field, claims, document, full[field.name], {c.field for c in contradictions if c.level == "error"}
            ),
            found=tuple(full[field.name] or found[field.name]),
        )
        for field in FIELDS
    )
    findings = [finding for report in reports if report.status == "missing" for finding in (_missing(report),)]
    findings += [
        Finding(level=c.level, code=c.code, field=c.field, line=c.line, message=c.message) for c in contradictions
    ]
    findings += _further(document, claims, full)
    order = {"error": 0, "warning": 1}
    return Report(
        claims=claims,
        fields=reports,
        findings=tuple(sorted(findings, key=lambda f: (order[f.level], f.code != "missing", f.line or 0))),
    )


def _answered(item: Disclosure) -> Disclosure:
    """A field that is named to say that its value is not known discloses nothing."""
    if item.partial or not _UNKNOWN.search(item.statement.text):
        return item
    return replace(item, partial="says that it is not known")


def _near(document: Document, claims: Sequence[Claim]) -> tuple[Statement, ...]:
    """What may speak of the measurement; how a model is launched or licensed says nothing of how it was measured."""
    sections = {claim.statement.section for claim in claims}
    deep = all(len(section) > 1 for section in sections)

    def is_near(statement: Statement) -> bool:
        section = statement.section
        if section in sections or statement.kind == "data":
            return True
        if len(section) < 2:
            return not deep or MEASURING.search(statement.said) is not None
        if any(
            known[: len(section)] == section or section[: len(known)] == known for known in sections if len(known) > 1
        ):
            return True
        return any(MEASURING.search(heading) for heading in section[1:]) and not USING.search(section[-1])

    return tuple(statement for statement in document.statements if is_near(statement))


def _status(
    field: Field, claims: Sequence[Claim], document: Document, items: Sequence[Disclosure], torn: set[str | None]
) -> Status:
    if field.name == "kl_direction" and not any(claim.metric == "kl" for claim in claims):
        return "not needed"
    if field.name == "calibration" and not items and not any(weights_of(s.said) for s in document.statements):
        return "not needed"
    if field.name in torn:
        return "contradictory"
    return "disclosed" if items else "missing"


def _missing(report: FieldReport) -> Finding:
    field = report.field
    partial = report.found[0] if report.found else None
    told = f"{field.title}: not disclosed" if partial is None else f"{field.title}: the card {partial.partial}"
    return Finding(
        level=field.level,
        code="missing",
        field=field.name,
        line=partial.statement.line if partial else None,
        message=told,
        advice=field.advice,
    )


def _further(document: Document, claims: Sequence[Claim], full: dict[str, list[Disclosure]]) -> list[Finding]:
    """What is wrong although every field may be filled in."""
    found = []
    kl = [claim for claim in claims if claim.metric in ("kl", "jsd", "total variation")]
    means = [claim for claim in kl if claim.statistic in ("mean", "unstated")]
    if means and not any(claim.statistic in ("quantile", "max") for claim in kl):
        found.append(
            _warning(
                "mean without tails",
                kl[0].line,
                "a mean divergence without quantiles or maximum",
                "add p99, p99.9 and the maximum: a mean near the reference's does not rank stacks",
            )
        )
    unstated = [claim for claim in kl if claim.statistic == "unstated"]
    if unstated and not any(claim.statistic == "mean" for claim in kl):
        found.append(
            _warning(
                "statistic unstated",
                unstated[0].line,
                f"{unstated[0].metric} of {unstated[0].value:g} without saying whether it is a mean",
                "say mean, median or quantile",
            )
        )
    dtypes = [item for item in full["reference_dtype"] if item.value != "bf16"]
    if dtypes:
        found.append(
            _warning(
                "reference not BF16",
                dtypes[0].statement.line,
                f"the reference is {dtypes[0].value}, not BF16",
                "measure against the checkpoint as it was published, or say why not",
            )
        )
    percent = [c for c in claims if c.unit == "%" and c.n is None and c.metric in ("flips", "top-1 agreement")]
    for claim in percent[:5]:
        found.append(
            _warning(
                "percentage without n",
                claim.line,
                f"{claim.metric} of {claim.value:g} % without counts",
                "write the count and n beside it: 156 of 7,114 (2.2 %)",
            )
        )
    for item in full["image_digest"]:
        if item.value == "none":
            found.append(
                _warning(
                    "no image",
                    item.statement.line,
                    "the stack was not a container image, so nobody can pull it",
                    "pin its packages by hash, and say so",
                )
            )
            break
    texts = [s for s in document.statements if _OVERLAP.search(s.said)]
    calibrated = {m.lower() for item in full["calibration"] for m in _OVERLAP.findall(item.statement.text)}
    evaluated = {
        m.lower() for s in texts for m in _OVERLAP.findall(s.said) if not re.search(r"calibra", s.said, re.IGNORECASE)
    }
    both = {_text_name(name) for name in calibrated} & {_text_name(name) for name in evaluated}
    if both:
        found.append(
            _warning(
                "calibration overlaps",
                full["calibration"][0].statement.line,
                f"calibrated and measured on the same kind of text: {', '.join(sorted(both))}",
                "measure on a text that the calibration has not seen",
            )
        )
    return found


def _text_name(name: str) -> str:
    return "wikitext" if name.startswith("wiki") else name


def _warning(code: str, line: int, message: str, advice: str) -> Finding:
    return Finding(level="warning", code=code, field=None, line=line, message=message, advice=advice)
