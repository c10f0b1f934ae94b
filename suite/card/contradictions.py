"""Where a card contradicts itself: counts and shares, quantiles, one field said twice, rows that cannot be compared."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product

from suite.card.claims import Claim, count_of, is_n_label, metric_of
from suite.card.document import Document, Table
from suite.card.fields import Level
from suite.card.finders import Disclosure, dtype_name
from suite.card.numbers import find_numbers
from suite.card.words import REFERENCE


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two things in a card that cannot both hold, or that may not stand together."""

    code: str
    level: Level
    message: str
    line: int
    field: str | None = None


_NEGATIVE = {"kl", "jsd", "total variation", "flips", "top-1 agreement"}
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


def find_contradictions(
    document: Document, claims: Sequence[Claim], disclosed: Mapping[str, Sequence[Disclosure]], singles: Iterable[str]
) -> tuple[Contradiction, ...]:
    """All contradictions of a card.

    Args:
        document: The card.
        claims: Its divergence claims.
        disclosed: Field name to what counts as its disclosures.
        singles: Fields that have one value per side.
    """
    found = [
        *_impossible(claims),
        *_whole_counts(claims),
        *_count_and_share(document),
        *_order_of_statistics(claims),
        *_flips_and_agreement(claims),
        *_units(claims),
        *_said_twice(document, claims, disclosed, singles),
        *_mixed_bases(document, claims),
        *_factors(document, claims, disclosed),
    ]
    unique: dict[tuple[str, str], Contradiction] = {}
    for item in found:
        unique.setdefault((item.code, item.message), item)
    return tuple(sorted(unique.values(), key=lambda item: (item.line, item.code)))


def _impossible(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    for claim in claims:
        if claim.value < 0 and claim.metric in _NEGATIVE:
            yield _error("negative", f"{claim.metric} of {claim.value:g}: it cannot be negative", claim.line)
        if claim.unit == "%" and claim.value > 100 and claim.metric in ("flips", "top-1 agreement"):
            yield _error("over 100 %", f"{claim.metric} of {claim.value:g} %", claim.line)
        if claim.metric == "flips" and claim.unit == "" and claim.n is not None and claim.value > claim.n:
            yield _error("more than n", f"{claim.value:g} flips of {claim.n:,} positions", claim.line)
        if claim.metric == "jsd" and claim.unit in ("", "nats") and claim.value > math.log(2) + claim.step:
            yield _error("over ln 2", f"a Jensen-Shannon divergence of {claim.value:g} nats is above ln 2", claim.line)


def _whole_counts(claims: Sequence[Claim]) -> Iterator[Contradiction]:
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
            yield _error(
                "no whole count",
                f"{claim.value:.{digits}f} % of {claim.n:,} is no whole number of positions: {below:,} are "
                f"{100 * below / claim.n:.{digits + 1}f} %, {above:,} are {100 * above / claim.n:.{digits + 1}f} %",
                claim.line,
                field="positions_n",
            )


def _count_and_share(document: Document) -> Iterator[Contradiction]:
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
            yield _error(
                "count and share",
                f"{count.value:,.0f} of {n.value:,.0f} is {true:.2f} %, not {share.value:g} %",
                statement.line,
                field="positions_n",
            )


def _order_of_statistics(claims: Sequence[Claim]) -> Iterator[Contradiction]:
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
                yield _error(
                    "order of statistics",
                    f"{low.metric}: the {_name(low)} ({low.value:g}) is above the {_name(high)} ({high.value:g})",
                    high.line,
                )
        means = [claim for claim in group if claim.statistic == "mean"]
        for mean, most in product(means, [claim for claim in group if claim.statistic == "max"]):
            if mean.value > most.value + most.step / 2:
                yield _error(
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


def _flips_and_agreement(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    rows: dict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for claim in claims:
        where = claim.statement
        rows[(where.table, where.row) if where.table is not None else ("line", where.line, where.section)].append(claim)
    for row in rows.values():
        flips = [c for c in row if c.metric == "flips" and c.unit == "%"]
        same = [c for c in row if c.metric == "top-1 agreement" and c.unit == "%"]
        for flip, agreement in product(flips[:1], same[:1]):
            if abs(flip.value + agreement.value - 100) > (flip.step + agreement.step) * 0.51:
                yield _error(
                    "flips and agreement",
                    f"{flip.value:g} % flips and {agreement.value:g} % agreement do not add up to 100 %",
                    flip.line,
                )


def _units(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    units: dict[str, Claim] = {}
    for claim in claims:
        if claim.metric == "kl" and claim.unit in ("nats", "mnats", "bits"):
            units.setdefault("bits" if claim.unit == "bits" else "nats", claim)
    if len(units) == 2:
        first, second = sorted(units.values(), key=lambda claim: claim.line)
        yield _error(
            "units", f"KL in {first.unit} on line {first.line} and in {second.unit} on line {second.line}", second.line
        )


def _said_twice(
    document: Document, claims: Sequence[Claim], disclosed: Mapping[str, Sequence[Disclosure]], singles: Iterable[str]
) -> Iterator[Contradiction]:
    """One field with two values, outside of tables, whose columns may list them."""
    for name in singles:
        by_side: dict[str, dict[str, Disclosure]] = defaultdict(dict)
        for item in disclosed.get(name, ()):
            if not _lists_rows(document, item):
                by_side[item.side or ""].setdefault(_comparable(name, item.value), item)
        for values in by_side.values():
            yield from _two(name, list(values.values()))
    counts: dict[tuple[str, ...], dict[str, Disclosure]] = defaultdict(dict)
    for item in disclosed.get("positions_n", ()):
        if not _lists_rows(document, item) and item.statement.kind in ("prose", "cell", "data"):
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


def _comparable(name: str, value: str) -> str:
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


def _lists_rows(document: Document, item: Disclosure) -> bool:
    """Whether it stands in a column or row that lists a setting per stack, rather than saying it once."""
    where = item.statement
    if where.table is None:
        return False
    table = document.tables[where.table]
    return len(table.headers) > 2 or len(table.rows) == 0


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


def _mixed_bases(document: Document, claims: Sequence[Claim]) -> Iterator[Contradiction]:
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


def _factors(
    document: Document, claims: Sequence[Claim], disclosed: Mapping[str, Sequence[Disclosure]]
) -> Iterator[Contradiction]:
    """More than one setting between a candidate and its reference."""
    excused = next((s for s in document.statements if _NO_CAUSE.search(s.text)), None)
    level: Level = "warning" if excused else "error"
    differing: dict[str, int] = {}
    for name, title in _PER_SIDE.items():
        sides: dict[str, dict[str, int]] = defaultdict(dict)
        for item in disclosed.get(name, ()):
            if item.side and not _lists_rows(document, item):
                sides[item.side].setdefault(_comparable(name, item.value), item.statement.line)
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


def _error(code: str, message: str, line: int, field: str | None = None) -> Contradiction:
    return Contradiction(code=code, level="error", message=message, line=line, field=field)
