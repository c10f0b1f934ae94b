"""Divergence claims of a card: each number that says how far one model's outputs lie from another's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from suite.card.document import Document, Statement
from suite.card.numbers import Number, find_numbers, writes_decimal_commas
from suite.card.words import METRICS, POSITIONS, Metric, Statistic, statistic_of

_COUNT = re.compile(
    r"(?<![\w./])(\d[\d,. \u00a0\u2009\u202f']{0,14}?)\s?(?:/|\bof\b|\bvon\b|\bout of\b|\bsur\b|\bde\b)\s?(\d)"
)
_N_BEFORE = re.compile(r"(?:\bn|\bN|\bnum(?:ber)?(?:[ _]of)?[ _]\w+|№)\s*[=:≈]\s*$")
_N_AFTER = re.compile(
    rf"^[\s-]*(?:\w+[ -]){{0,2}}?{POSITIONS}\b(?!\s*(?:of context|context|/|per|window|long|prompt|\)?\s*vocab))",
    re.IGNORECASE,
)
_TOKENS = re.compile(r"^[\s-]*(?:\w+[ -]){0,2}?(?:tokens?|jetons)\b", re.IGNORECASE)
_OVER = re.compile(
    r"(?:\bover|\bacross|\bon|\bof|\bfrom|\bin|\bat|\ball|\bsur|\büber|\bvon|\bauf|\ben|\bsobre|共|在)(?: (?:all"
    r"|the|about))?\s*$",
    re.IGNORECASE,
)
_SCORED = re.compile(
    r"^[\s-]*(?:\w+[ -]){0,2}?(?:tokens?|jetons)\s+(?:were |was |are )?(?:scored|evaluated|compared|predicted"
    r"|measured|total)",
    re.IGNORECASE,
)
_N_HEADER = re.compile(rf"^\s*(?:n|#|num[ _.]?\w*|{POSITIONS}(?: \(n\))?|count)\s*$", re.IGNORECASE)
_LENGTH = re.compile(
    r"\b(?:context|ctx|prompt|session|length|window|chunks?|sequence|vocab\w*|Kontext\w*|contexte)\W+(?:\w+\W+){0,2}$",
    re.IGNORECASE,
)
_N_IN_HEADER = re.compile(r"\bn\s*=\s*", re.IGNORECASE)
_NOT_A_MEASURE = re.compile(
    rf"^[\s-]*(?:(?!over|across|on|of|at|for|with|in|and)[A-Za-z]+[ -]){{0,2}}?{POSITIONS}\b"
    r"|^\s?(?:GB|GiB|MB|MiB|B\b|bpw|tok|-?bit\b|ms\b|s\b|x\b|×|windows?|turns?"
    r"|chunks?|steps?|fresh|starts?|GPUs?|cards?|layers?|sessions?|times|%? ?-?(?:th|st)?[ -]?(?:percentile"
    r"|quantil\w*|分位))",
    re.IGNORECASE,
)
_SETTING_BEFORE = re.compile(
    r"(?:\bcontext(?: length| size| window)?|\bctx|\bn_ctx|\bstride|\bTP|\btensor[- ]parallel\w*|\bvocab\w*|\bV"
    r"|\bseed|\bchunks?(?: size)?|\bversion"
    r"|\bv|\bevery|\bwindow|\btop[- ]|\bgroup(?: size)?|\bTable|\bFigure|\bstep|\bsection|Kontext\w*|contexte"
    r"|\bin|\bsince)(?:\s*(?:of|is|=|:|size))?\s*$",
    re.IGNORECASE,
)
_APPROXIMATE = re.compile(
    r"(?:~|≈|\babout|\baround|\broughly|\bapprox\w*\.?|\bca\.|\bcirca|\betwa|\benviron|约)\s*$", re.IGNORECASE
)
_THRESHOLD = re.compile(r"(?:[<>≤≥]=?|\bbelow|\babove|\bunder|\bover|\bat least|\bat most|\bup to)\s*$", re.IGNORECASE)
_NO_CLAIM_LABEL = re.compile(
    r"\brounding\b|\brepeat floor\b|\bnoise floor\b|\bthreshold\b|\btarget\b|\bgate\b", re.IGNORECASE
)
_SETTING_LABEL = re.compile(
    r"\binterval|\bCI\b|±|\bstd\b|\bstderr\b|\berror\b|direction|unit|definition|formula|aggregat|dataset|text\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One number of one metric."""

    metric: Metric
    statistic: Statistic
    quantile: str
    """Which quantile, as written; else empty."""
    value: float
    step: float
    """Distance to the next number of as many digits."""
    unit: str
    n: int | None
    """Positions that this very number stands for, where the same sentence, row or header says."""
    approximate: bool
    statement: Statement

    @property
    def line(self) -> int:
        """Line of the card."""
        return self.statement.line


def find_claims(document: Document) -> tuple[Claim, ...]:
    """All divergence claims, in order."""
    comma = writes_decimal_commas("\n".join(statement.text for statement in document.statements))
    claims: list[Claim] = []
    statements = document.statements
    for at, statement in enumerate(statements):
        if statement.kind == "command":
            continue
        if statement.kind == "cell":
            claims += _of_cell(statement, document, comma=comma)
        elif statement.kind == "data":
            claims += _of_value(statement, statements[max(0, at - 6) : at + 7], comma=comma)
        else:
            claims += _of_prose(statement, comma=comma)
    return tuple(claims)


def count_of(text: str, *, comma: bool) -> tuple[Number, Number] | None:
    """`156 of 7,114` as its two numbers."""
    match = _COUNT.search(text)
    if match is None:
        return None
    spaced = f"{text[: match.end(1)]} of {text[match.start(2) :]}"
    numbers = [n for n in find_numbers(spaced, decimal_comma=comma) if n.end > match.start(1)]
    if len(numbers) < 2 or not (numbers[0].is_whole and numbers[1].is_whole):
        return None
    return numbers[0], numbers[1]


def stated_n(text: str, *, comma: bool) -> Number | None:
    """The number of positions that a text states: `n = 7,114`, `7,114 positions`, `156 of 7,114`."""
    for number in find_numbers(text, decimal_comma=comma):
        before, after = text[: number.start], text[number.end :]
        if not number.is_whole:
            continue
        if _N_BEFORE.search(before):
            return number
        # "a prompt of 100,000 tokens" is a length; "over 100,000 tokens" says how many were scored.
        said_of_tokens = (_OVER.search(before) or _SCORED.match(after)) and not _LENGTH.search(before)
        if _N_AFTER.match(after) and (said_of_tokens or not _TOKENS.match(after)):
            return number
    counted = count_of(text, comma=comma)
    return counted[1] if counted else None


def is_n_label(label: str) -> bool:
    """Whether a header or key names the number of positions."""
    return _N_HEADER.match(label) is not None


def _of_cell(statement: Statement, document: Document, *, comma: bool) -> Iterator[Claim]:
    assert statement.table is not None
    assert statement.row is not None
    assert statement.column is not None
    table = document.tables[statement.table]
    header, row = table.headers[statement.column], table.rows[statement.row]
    # The metric may be named by the column, by the row, or by the table's caption: the last heading.
    metric = metric_of(header) or (metric_of(row[0]) if statement.column else None)
    if metric is None and statement.column and statistic_of(header) != "unstated" and statement.section:
        metric = metric_of(statement.section[-1])
    label = f"{header} {row[0] if statement.column else ''}"
    if metric is None or _NO_CLAIM_LABEL.search(label) or _SETTING_LABEL.search(label):
        return
    if not statement.column and metric_of(header) is None:
        return
    n = _n_of_row(table.headers, row, comma=comma) or stated_n(header, comma=comma) or _n_of_header(header, comma=comma)
    yield from _numbers_as_claims(statement, metric, label=label, n=n, comma=comma)


def _n_of_row(headers: Sequence[str], row: Sequence[str], *, comma: bool) -> Number | None:
    for header, cell in zip(headers, row, strict=True):
        if is_n_label(header):
            number = next(find_numbers(cell, decimal_comma=comma), None)
            if number is not None and number.is_whole:
                return number
    return None


def _n_of_header(header: str, *, comma: bool) -> Number | None:
    match = _N_IN_HEADER.search(header) or re.search(r"\bof\s+(?=\d)", header)
    if match is None:
        return None
    number = next((n for n in find_numbers(header, decimal_comma=comma) if n.start >= match.end() - 1), None)
    return number if number is not None and number.is_whole else None


def _of_value(statement: Statement, around: Sequence[Statement], *, comma: bool) -> Iterator[Claim]:
    """Front matter and configuration; in a model index the metric's type stands beside its value."""
    key = statement.label.split()[-1] if statement.label else ""
    label = statement.label
    metric = metric_of(label.replace("_", " ")) or metric_of(key)
    if metric is None and key == "value":
        parent = statement.label.rsplit(" ", 1)[0]
        beside = [s for s in around if s.kind == "data" and s.label.rsplit(" ", 1)[0] == parent]
        for sibling in sorted(beside, key=lambda s: abs(s.line - statement.line)):
            if sibling.label.split()[-1] in ("type", "name", "metric"):
                metric = metric_of(sibling.text.replace("_", " "))
                if metric is not None:
                    label = f"{label} {sibling.text.replace('_', ' ')}"
                    break
    if metric is None or _SETTING_LABEL.search(key) or _NO_CLAIM_LABEL.search(label.replace("_", " ")):
        return
    if re.search(r"(?:^|_)(?:n|positions|tokens|count_of)$", key) and key not in ("flips",):
        return
    yield from _numbers_as_claims(statement, metric, label=label.replace("_", " "), n=None, comma=comma)


def _numbers_as_claims(
    statement: Statement, metric: Metric, *, label: str, n: Number | None, comma: bool
) -> Iterator[Claim]:
    """The first number of a cell or value, and a count's share of it beside the count."""
    text = statement.text
    numbers = list(find_numbers(text, decimal_comma=comma))
    if not numbers:
        return
    counted = count_of(text, comma=comma)
    first = numbers[0] if counted is None else counted[0]
    n = counted[1] if counted else stated_n(text, comma=comma) or n
    yield _claim(statement, metric, first, label=label, n=n, count=metric in ("flips",) and first.unit == "")
    if counted or first.is_whole:
        share = next((number for number in numbers[1:] if number.unit in ("%", "‰")), None)
        if share is not None and "95" not in text[max(0, share.start - 1) : share.end]:
            yield _claim(statement, metric, share, label=label, n=n)


def _of_prose(statement: Statement, *, comma: bool) -> Iterator[Claim]:
    text = statement.text
    named = _metrics_in(text)
    if not named:
        return
    n = stated_n(text, comma=comma)
    counted = count_of(text, comma=comma)
    numbers = [
        number
        for number in find_numbers(text, decimal_comma=comma)
        if (n is None or number.start != n.start)
        and not _NOT_A_MEASURE.match(text[number.end :])
        and not (number.is_whole and _SETTING_BEFORE.search(text[: number.start]))
    ]
    taken: set[int] = set()
    for place, (start, end, metric) in enumerate(named):
        until = named[place + 1][0] if place + 1 < len(named) else len(text)
        since = named[place - 1][1] if place else 0
        if _NO_CLAIM_LABEL.search(text[since : end + 20]):
            continue
        after = [number for number in numbers if end <= number.start < until and number.start not in taken]
        before = [number for number in numbers if since <= number.start < start and number.start not in taken]
        chosen = after[:1] if after and (after[0].start - end < 60 or not before) else before[-1:]
        # "156 flips (2.2 %)": the count and its share are two forms of one claim.
        count = next((x for x in numbers if counted and x.is_whole and x.value == counted[0].value), None)
        if metric == "flips" and count is not None and since <= count.start < until:
            chosen = [count, *[x for x in numbers if count.end < x.start < until and x.unit in ("%", "‰")][:1]]
        elif metric == "flips" and before and before[-1].is_whole and start - before[-1].end < 24:
            chosen = [before[-1], *[number for number in after[:1] if number.unit in ("%", "‰")]]
        elif metric == "kl" or (after and not chosen):
            chosen += _tail(text, after[1:], chosen)
        for number in chosen:
            if _THRESHOLD.search(text[: number.start]):
                continue
            taken.add(number.start)
            own = text[max(since, number.start - 40) : number.start]
            label = own if statistic_of(own) != "unstated" else text[max(since, start - 40) : end]
            if statement.kind == "output":
                label = text[: number.start]
            size = n or (counted[1] if counted else None)
            yield _claim(statement, metric, number, label=label, n=size, count=metric == "flips" and number.unit == "")


def _tail(text: str, rest: Sequence[Number], chosen: Sequence[Number]) -> list[Number]:
    """Further numbers of the same metric that name a statistic of their own: `mean 0.01, p99 0.2, max 3`."""
    found: list[Number] = []
    last = chosen[-1].end if chosen else 0
    for number in rest:
        if statistic_of(text[last : number.start]) != "unstated":
            found.append(number)
        last = number.end
    return found


def _claim(
    statement: Statement, metric: Metric, number: Number, *, label: str, n: Number | None, count: bool = False
) -> Claim:
    statistic: Statistic = "count" if count else statistic_of(label)
    quantile = re.findall(r"9\d(?:[.,_]?\d+)?", label) if statistic == "quantile" else []
    return Claim(
        metric=metric,
        statistic=statistic,
        quantile=quantile[-1].replace(",", ".").replace("_", ".") if quantile else "",
        value=number.value,
        step=number.step,
        unit=number.unit,
        n=None if n is None else int(n.value),
        approximate=_APPROXIMATE.search(statement.text[: number.start]) is not None,
        statement=statement,
    )


def metric_of(text: str) -> Metric | None:
    """The metric that a label names first; None where it names none."""
    named = _metrics_in(text)
    return named[0][2] if named else None


def _metrics_in(text: str) -> list[tuple[int, int, Metric]]:
    """(start, end, metric) of every metric that a text names, without overlaps, in order."""
    found: list[tuple[int, int, Metric]] = []
    for metric, pattern in METRICS:
        for match in pattern.finditer(text):
            if all(match.end() <= start or match.start() >= end for start, end, _ in found):
                found.append((match.start(), match.end(), metric))
    found.sort()
    merged: list[tuple[int, int, Metric]] = []
    for start, end, metric in found:
        # "KL divergence (KLD)" names one metric twice.
        if merged and merged[-1][2] == metric and not re.search(r"\d", text[merged[-1][1] : start]):
            merged[-1] = (merged[-1][0], end, metric)
        else:
            merged.append((start, end, metric))
    return merged
