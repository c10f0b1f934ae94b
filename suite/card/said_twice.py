"""One field of a card that is said twice, with two values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from suite.card.claims import Claim
from suite.card.contradiction import Contradiction
from suite.card.disclosure import Disclosure, dtype_name
from suite.card.document import Document
from suite.card.fields import Level


def said_twice(
    document: Document, claims: Sequence[Claim], disclosed: Mapping[str, Sequence[Disclosure]], singles: Iterable[str]
) -> Iterator[Contradiction]:
    """One field with two values, outside of tables, whose columns may list them."""
    for name in singles:
        by_side: dict[str, dict[str, Disclosure]] = defaultdict(dict)
        for item in disclosed.get(name, ()):
            if not lists_rows(document, item):
                by_side[item.side or ""].setdefault(comparable(name, item.value), item)
        for values in by_side.values():
            yield from _two(name, list(values.values()))
    counts: dict[tuple[str, ...], dict[str, Disclosure]] = defaultdict(dict)
    for item in disclosed.get("positions_n", ()):
        if not lists_rows(document, item) and item.statement.kind in ("prose", "cell", "data"):
            counts[item.statement.section].setdefault(item.value, item)
    sections = {claim.statement.section for claim in claims}
    for section, numbers in counts.items():
        totals = [
            item
            for item in numbers.values()
            if re.search(r"\bn\b\s*=|\bn\b$|total|all |over |positions", item.statement.said)
        ]
        if section in sections and len(totals) > 1:
            yield from _two("positions_n", totals, level="warning")
    yield from _two_directions(claims, disclosed.get("kl_direction", ()))


def _two(name: str, items: Sequence[Disclosure], level: Level = "error") -> Iterator[Contradiction]:
    for first, second in combinations(items[:3], 2):
        yield Contradiction(
            code="said twice",
            level=level,
            message=f"{name.replace('_', ' ')} is {first.value[:80]} on line {first.statement.line} and "
            f"{second.value[:80]} on line {second.statement.line}",
            line=second.statement.line,
            field=name,
        )


def _two_directions(claims: Sequence[Claim], items: Sequence[Disclosure]) -> Iterator[Contradiction]:
    measured = {claim.statement.said for claim in claims}
    said = [item for item in items if item.statement.said not in measured]
    values = {item.value: item for item in said}
    # One sentence that names both says that both were measured.
    lines = defaultdict(set)
    for item in said:
        lines[item.statement.line].add(item.value)
    if len(values) == 2 and all(len(found) == 1 for found in lines.values()):
        yield from _two("kl_direction", list(values.values()))


def comparable(name: str, value: str) -> str:
    """A field's value in a spelling that tells two values apart, and only those."""
    if name == "kv_cache_dtype":
        value = dtype_name(value)
        return "fp8" if value.startswith("fp8") else value
    if name == "attention_backend":
        return (
            re.sub(r"v1$|\d$|vllm", "", value).replace("fa", "flashattention")
            if value[:2] == "fa"
            else re.sub(r"v1$|vllm", "", value)
        )
    return value[:7] if name == "reference_revision" else value


def lists_rows(document: Document, item: Disclosure) -> bool:
    """Whether it stands in a column or row that lists a setting per stack, rather than saying it once."""
    where = item.statement
    if where.table is None:
        return False
    table = document.tables[where.table]
    return len(table.headers) > 2 or len(table.rows) == 0
