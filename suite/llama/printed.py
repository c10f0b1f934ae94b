"""The text that llama-perplexity prints at the end of a run: written from figures, and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable

from suite.errors import InvalidInput
from suite.llama.statistics import Figure, Section

_SECTIONS: tuple[Section, ...] = ("Perplexity", "KL divergence", "Token probability")
_NUMBER = r"-?(?:\d+\.\d+|nan|inf)"
_LINE = re.compile(
    rf"^\s*(?P<name>\S.*?)\s*:\s*(?P<value>{_NUMBER})\s*%?(?:\s*(?:±|\+/-)\s*(?P<half>{_NUMBER}))?\s*(?P<unit>%?)\s*$"
)
_TITLE = re.compile(r"^=+ (?P<section>.+?) statistics =+$")
_MAX_CHARACTERS = 1 << 20


def render_printed(figures: Iterable[Figure]) -> str:
    """The summary in the tool's own layout, so that the two texts can be compared line by line."""
    lines: list[str] = []
    section = None
    for figure in figures:
        if figure.section != section:
            section = figure.section
            lines += ["", f"====== {section} statistics ======"] if lines else [f"====== {section} statistics ======"]
        lines.append(_line(figure))
    return "\n".join(lines) + "\n"


def parse_printed(text: str, *, where: str = "printed statistics") -> tuple[Figure, ...]:
    """Read the summary out of a run's output; everything before it and between is skipped.

    Raises:
        InvalidInput: no summary in it.
    """
    if len(text) > _MAX_CHARACTERS:
        text = text[-_MAX_CHARACTERS:]
    figures: list[Figure] = []
    section: Section | None = None
    for line in text.splitlines():
        if title := _TITLE.match(line.strip()):
            section = next((known for known in _SECTIONS if known == title["section"]), None)
        elif section and (found := _LINE.match(line)):
            figures.append(
                Figure(
                    section=section,
                    name=" ".join(found["name"].split()),
                    value=float(found["value"]),
                    half_width=float(found["half"]) if found["half"] else None,
                    unit="%" if "%" in line[line.rindex(":") :] else "",
                )
            )
    if not figures:
        raise InvalidInput(
            "holds no statistics of llama-perplexity",
            where=where,
            hint="give the output of a whole `--kl-divergence` run (it prints none below 100 rows)",
        )
    return tuple(figures)


def _line(figure: Figure) -> str:
    if figure.section == "Perplexity":
        if figure.unit:
            return f"{figure.name:<30}: {figure.value:6.2f}%"
        return f"{figure.name:<30}: {figure.value:10.6f} ± {figure.half_width:10.6f}"
    first, _, rest = figure.name.partition(" ")
    if figure.section == "KL divergence":
        label, number = f"{_padded(first)} {rest}", f"{figure.value:10.6f}"
        return f"{label}: {number}" + (f" ± {figure.half_width:10.6f}" if figure.half_width is not None else "")
    if figure.name == "RMS Δp":
        label = f"{figure.name:<10}"
    else:
        label = figure.name if figure.name == "Same top p" else f"{_padded(first)} {rest}"
    if figure.half_width is None:
        return f"{label}: {figure.value:6.3f}%"
    return f"{label}: {figure.value:6.3f} ± {figure.half_width:5.3f} %"


def _padded(first: str) -> str:
    return f"{first:>5}  " if first.endswith("%") else f"{first:<7}"
