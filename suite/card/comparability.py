"""Rows of a card that cannot be compared: measured on other bases, or different in more than one setting."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from suite.card.claims import Claim, count_of, is_n_label, metric_of
from suite.card.contradiction import Contradiction
from suite.card.disclosure import Disclosure
from suite.card.document import Document, Table
from suite.card.fields import Level
from suite.card.said_twice import comparable, lists_rows
from suite.card.words import REFERENCE

_BREAKDOWN = re.compile(
    r"window|span|turn|range|position|domain|categor|subset|bucket|\bkind\b|language|class|statistic|metric"
    r"|measure|Fenster|步",
    re.IGNORECASE,
)
_BASE_COLUMNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("context length", re.compile(r"^\s*(?:context|ctx|n_ctx|context length|Kontext)\b", re.IGNORECASE)),
    (
        "reference",
        re.compile(r"^\s*(?:reference|baseline|base|Referenz|référence|ref)(?: model| revision)?\s*$", re.IGNORECASE),
    ),
    ("text", re.compile(r"^\s*(?:text|data ?set|corpus|prompt|session|eval set)\s*$", re.IGNORECASE)),
    ("stride", re.compile(r"^\s*stride\s*$", re.IGNORECASE)),
    (
        "base perplexity",
        re.compile(r"PPL\(base\)|base(?:line)? (?:PPL|perplexity)|reference (?:PPL|perplexity|NLL)", re.IGNORECASE),
    ),
    ("path", re.compile(r"^\s*(?:path|phase)\s*$", re.IGNORECASE)),
)
_SETTING_COLUMNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "weights",
        re.compile(
            r"^\s*(?:weights?|weight (?:format|dtype)|quant(?:i[sz]ation)?|format|checkpoint)\s*$", re.IGNORECASE
        ),
    ),
    ("KV dtype", re.compile(r"\bKV\b", re.IGNORECASE)),
    ("attention backend", re.compile(r"\bbackend\b|attention", re.IGNORECASE)),
    ("TP", re.compile(r"^\s*(?:TP|tensor[- ]parallel\w*)\b", re.IGNORECASE)),
    ("GPU", re.compile(r"^\s*(?:GPU|hardware|card|device)\s*$", re.IGNORECASE)),
    ("engine version", re.compile(r"^\s*(?:vLLM|engine|image|version|runtime)(?: version)?\s*$", re.IGNORECASE)),
)
_NO_CAUSE = re.compile(
    r"no causal claim|several factors|more than one (?:factor|setting)|not (?:a )?single[- ]factor", re.IGNORECASE
)
_PER_SIDE = {
    "attention_backend": "attention backend",
    "kv_cache_dtype": "KV dtype",
    "tensor_parallel": "TP",
    "image_digest": "image",
}


def mixed_bases(document: Document, claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """Rows of one table that rest on different texts, contexts, references or numbers of positions."""
    for number in sorted({c.statement.table for c in claims if c.statement.table is not None}):
        table = document.tables[number]
        if _BREAKDOWN.search(table.headers[0]):
            continue
        for column, header in enumerate(table.headers):
            cells = _column(table, column)
            base = next((name for name, pattern in _BASE_COLUMNS if pattern.search(header)), None)
            if base is None and is_n_label(header):
                base = "number of positions"
            if base == "base perplexity" and metric_of(header) is not None:
                continue
            if base is not None and len(set(cells)) > 1:
                yield _mixed(base, sorted(set(cells))[:3], table.line)
        sizes = {
            c.n
            for c in claims
            if c.statement.table == number and c.n is not None and count_of(c.statement.text, comma=False)
        }
        if len(sizes) > 1:
            yield _mixed("number of positions", [f"{size:,}" for size in sorted(sizes)[:3]], table.line)


def _mixed(base: str, values: Sequence[str], line: int) -> Contradiction:
    return Contradiction(
        code="mixed bases",
        level="error",
        message=f"rows of one table differ in their {base}: {', '.join(value[:40] for value in values)}",
        line=line,
        field="positions_n" if base == "number of positions" else None,
    )


def _column(table: Table, column: int) -> list[str]:
    return [" ".join(row[column].lower().split()) for row in table.rows if row[column].strip(" -–—")]


def factors(
    document: Document, claims: Sequence[Claim], disclosed: Mapping[str, Sequence[Disclosure]]
) -> Iterator[Contradiction]:
    """More than one setting between a candidate and its reference."""
    excused = next((s for s in document.statements if _NO_CAUSE.search(s.text)), None)
    level: Level = "warning" if excused else "error"
    differing: dict[str, int] = {}
    for name, title in _PER_SIDE.items():
        sides: dict[str, dict[str, int]] = defaultdict(dict)
        for item in disclosed.get(name, ()):
            if item.side and not lists_rows(document, item):
                sides[item.side].setdefault(comparable(name, item.value), item.statement.line)
        reference, candidate = sides["reference"], sides["candidate"]
        if len(reference) == 1 and len(candidate) == 1 and reference.keys() != candidate.keys():
            differing[title] = max(*reference.values(), *candidate.values())
    revisions = [{d.value[:7] for d in disclosed.get(f"{side}_revision", ())} for side in ("reference", "candidate")]
    if all(revisions) and revisions[0].isdisjoint(revisions[1]):
        differing["weights"] = next(iter(disclosed["candidate_revision"])).statement.line
    if claims and len(differing) > 1:
        yield Contradiction(
            code="more than one factor",
            level=level,
            message=f"candidate and reference differ in {len(differing)} settings: {', '.join(sorted(differing))}",
            line=max(differing.values()),
        )
    for number in sorted({c.statement.table for c in claims if c.statement.table is not None}):
        yield from _factors_of_table(document.tables[number], level)


def _factors_of_table(table: Table, level: Level) -> Iterator[Contradiction]:
    columns = {
        name: column
        for name, pattern in _SETTING_COLUMNS
        for column, header in enumerate(table.headers)
        if pattern.search(header) and metric_of(header) is None and len(set(_column(table, column))) > 1
    }
    if len(set(columns.values())) < 2:
        return
    rows = [tuple(row[c].strip().lower() for c in columns.values()) for row in table.rows]
    reference = next((i for i, row in enumerate(table.rows) if any(REFERENCE.search(cell) for cell in row)), None)
    names = ", ".join(columns)
    if reference is not None:
        far = [i for i, row in enumerate(rows) if sum(a != b for a, b in zip(row, rows[reference], strict=True)) > 1]
        if far:
            yield Contradiction(
                code="more than one factor",
                level=level,
                message=f"rows differ from the reference's in more than one of {names}",
                line=table.lines[far[0]],
            )
        return
    choices = [sorted({row[at] for row in rows}) for at in range(len(columns))]
    grid = set(product(*choices)) == set(rows)
    if grid or any(sum(a != b for a, b in zip(one, two, strict=True)) > 1 for one, two in combinations(rows, 2)):
        yield Contradiction(
            code="more than one factor",
            level="warning" if grid else level,
            message=f"{names} vary in one table, and no row is named as the reference",
            line=table.line,
        )
