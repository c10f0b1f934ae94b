"""Tables and text of HTML inside Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass(kw_only=True, slots=True)
class Cells:
    """A table as it is read."""

    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read_html(html: str, line: int) -> tuple[list[Cells], list[tuple[int, str]]]:
    """Tables, and pieces of text with their lines; scripts, styles and comments say nothing.

    Args:
        html: The block.
        line: The card's line at which it begins.
    """
    reader = _Reader(line)
    reader.feed(html)
    reader.close()
    return reader.tables, reader.texts


class _Reader(HTMLParser):
    def __init__(self, line: int) -> None:
        super().__init__()
        self.first_line = line
        self.tables: list[Cells] = []
        self.texts: list[tuple[int, str]] = []
        self._open = 0
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._silent += 1
        elif tag == "table":
            self.tables.append(Cells())
            self._open += 1
        elif self._open and tag == "tr":
            self.tables[-1].rows.append([])
            self.tables[-1].lines.append(self.first_line + self.getpos()[0] - 1)
        elif self._open and tag in ("td", "th") and self.tables[-1].rows:
            self.tables[-1].rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._silent = max(0, self._silent - 1)
        elif tag == "table":
            self._open = max(0, self._open - 1)

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not text or self._silent:
            return
        if self._open:
            if self.tables[-1].rows and self.tables[-1].rows[-1]:
                cell = self.tables[-1].rows[-1][-1]
                self.tables[-1].rows[-1][-1] = f"{cell} {text}".strip()
            return
        self.texts.append((self.first_line + self.getpos()[0] - 1, text))
