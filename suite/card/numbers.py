"""Numbers as people write them in cards: `7,114`, `7 114`, `0,0123`, `1.2e-3`, `2.4 × 10⁻²`, `100K`, `2.2 %`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SPACES = " \u00a0\u2009\u202f"
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,/@#\u2013-])(?P<sign>[-\u2212+\u00b1])?"
    rf"(?P<digits>\d{{1,3}}(?:[{_SPACES}'\u2019_]\d{{3}})+(?![\d])(?:[.,]\d+)?|\d+(?:[.,]\d+)*|[.,]\d+)"
    r"(?P<exponent>[eE][-+\u2212]?\d{1,3}"
    r"|\s?(?:[×x·*⋅]\s?10(?:\^\s?\{?[-\u2212+]?\d{1,3}\}?|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})))?"
    r"(?P<scale>[kK](?!\w)|M(?!\w))?"
    r"(?P<unit>\s?(?:%|‰|percent\b|per cent\b|Prozent\b|pour ?cent\b|por ciento\b"
    r"|millinats?\b|mnats?\b|nats?\b|bits?\b))?"
    r"(?![A-Za-z0-9_/]|[.,]\d|-(?!token|position|probe|entry|logit|GPU|Token)[A-Za-z\d])",
)
_UNITS = {
    "percent": "%",
    "per cent": "%",
    "prozent": "%",
    "pour cent": "%",
    "pourcent": "%",
    "por ciento": "%",
    "nat": "nats",
    "bit": "bits",
    "mnat": "mnats",
    "millinat": "mnats",
    "millinats": "mnats",
}
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(?:0,\d+|\d{1,3},(?:\d{1,2}|\d{4,}))(?![\d.,])")
_DECIMAL_POINT = re.compile(r"(?<![\d.,\w])(?:0\.\d+|\d{1,3}\.(?:\d{1,2}|\d{4,}))(?![\d.,])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """One number in a text."""

    value: float
    """Without its unit: 2.2 for `2.2 %`."""
    step: float
    """Distance between this and the next number of as many digits: 0.1 for `2.2`, 1 for `156`, 1000 for `100K`."""
    unit: str
    """`%`, `‰`, `nats`, `mnats`, `bits` or nothing."""
    start: int
    end: int
    text: str

    @property
    def is_whole(self) -> bool:
        """Whether it may be a count."""
        return self.unit == "" and self.value >= 0 and self.value == int(self.value) and self.step >= 1


def writes_decimal_commas(text: str) -> bool:
    """Whether a text's numbers have commas before their decimals (`0,0123`) rather than points."""
    return len(_DECIMAL_COMMA.findall(text)) > len(_DECIMAL_POINT.findall(text))


def find_numbers(text: str, *, decimal_comma: bool = False) -> Iterator[Number]:
    """All numbers of a text, in order; versions, dates, hashes and parts of names are none.

    Args:
        text: One statement.
        decimal_comma: What `7.114` and `7,114` mean where either reading is possible.
    """
    for match in _NUMBER.finditer(text):
        parsed = _decimal(match["digits"], decimal_comma=decimal_comma)
        if parsed is None:
            continue
        digits, decimals = parsed
        exponent = _exponent(match["exponent"]) + {"k": 3, "m": 6}.get((match["scale"] or "").lower(), 0)
        # Through text, so that 1.2e-3 is the double that Python itself would read.
        value = float(f"{digits}e{exponent}")
        if not math.isfinite(value):
            continue
        unit = (match["unit"] or "").strip().lower()
        yield Number(
            value=-value if match["sign"] in ("-", "\u2212") else value,
            step=10.0 ** (exponent - decimals),
            unit=_UNITS.get(unit, unit),
            start=match.start(),
            end=match.end(),
            text=match[0].strip(),
        )


def _exponent(text: str | None) -> int:
    if not text:
        return 0
    plain = text.translate(_SUPERSCRIPTS).replace("\u2212", "-")
    digits = re.search(r"([-+]?\d+)\W*$", plain.lower().split("e")[-1] if plain[0] in "eE" else plain.split("10", 1)[1])
    return int(digits[1]) if digits else 0


def _decimal(text: str, *, decimal_comma: bool) -> tuple[str, int] | None:
    """Digits in Python's form and the number of decimals; None where it is no number, as `1.2.3`."""
    plain = re.sub(rf"[{_SPACES}'\u2019_]", "", text)
    points, commas = plain.count("."), plain.count(",")
    if points and commas:
        decimal = "." if plain.rindex(".") > plain.rindex(",") else ","
        other = "," if decimal == "." else "."
        whole, _, rest = plain.rpartition(decimal)
        if decimal in whole or not _grouped(whole, other):
            return None
        return f"{whole.replace(other, '')}.{rest}", len(rest)
    mark = "." if points else ","
    if points + commas > 1:
        return (plain.replace(mark, ""), 0) if _grouped(plain, mark) else None
    if points + commas == 0:
        return plain, 0
    thousands = "." if decimal_comma else ","
    if mark == thousands and _grouped(plain, mark):
        return plain.replace(mark, ""), 0
    whole, _, rest = plain.partition(mark)
    return f"{whole or 0}.{rest}", len(rest)


def _grouped(text: str, mark: str) -> bool:
    return re.fullmatch(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+", text) is not None
