"""A model card or guide as statements: pieces of text that each know their labels, their section and their line.

Front matter, prose, lists, tables (Markdown or HTML), configuration blocks, commands and program output all become the
same kind of thing, so that what a card discloses is looked for in one way whatever its shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from suite.card.html import Cells, read_html
from suite.card.values import flat_values
from suite.errors import InvalidInput

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_BYTES = 1 << 20
_PIECE = 800
"""Characters of one statement: what is looked for is said in one breath, and patterns take time."""

Kind = Literal["prose", "cell", "data", "command", "output"]

# Not after "ca.", nor in "jedem 32. Token".
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\bca\.)(?<!\bvs\.)(?<!prox\.)(?<!e\.g\.)(?<!i\.e\.)\s+(?!Token|Position|Prompt)(?=\S)|(?<=[。！？])"
)
_COMMAND = re.compile(r"^\s*(\$ |sudo |docker |podman |vllm |llama-|python3? |uvx? |\./)|\s--[a-z]", re.IGNORECASE)
_FENCE = re.compile(r"^(---|\+\+\+|;;;)[ \t]*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One sentence, cell, value, command or line of output."""

    kind: Kind
    text: str
    line: int
    """From 1."""
    label: str = ""
    """Column and row headers, key path, or the words that a list item begins with."""
    section: tuple[str, ...] = ()
    """Headings it stands under, outermost first."""
    table: int | None = None
    row: int | None = None
    column: int | None = None

    @property
    def said(self) -> str:
        """Label and text as one."""
        return f"{self.label}: {self.text}" if self.label else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table; every row has as many cells as there are headers."""

    line: int
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    """Line of each row."""
    section: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One card."""

    statements: tuple[Statement, ...]
    tables: tuple[Table, ...]


def read_document(path: Path) -> Document:
    """Read a card.

    Raises:
        InvalidInput: absent, too large, not UTF-8 text, or front matter that cannot be read.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path), hint="name a Markdown file") from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"larger than {MAX_BYTES >> 20} MiB", where=str(path), hint="name a model card or guide")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"not UTF-8 text (byte {error.start:,})", where=str(path), hint="name a Markdown file"
        ) from error
    if "\0" in text:
        raise InvalidInput("not text: it holds a zero byte", where=str(path), hint="name a Markdown file")
    return parse_document(text, where=str(path))


def parse_document(text: str, *, where: str = "card") -> Document:
    """Parse a card's text.

    Raises:
        InvalidInput: empty, or front matter that is no YAML, TOML or JSON.
    """
    if not text.strip():
        raise InvalidInput("nothing is in it", where=where, hint="name a model card or guide")
    lines = text.splitlines()
    builder = _Builder(where)
    start = builder.front_matter(lines)
    if start < len(lines):
        builder.markdown("\n".join([""] * start + lines[start:]))
    return Document(statements=tuple(builder.statements), tables=tuple(builder.tables))


class _Builder:
    def __init__(self, where: str) -> None:
        self.where = where
        self.statements: list[Statement] = []
        self.tables: list[Table] = []
        self.section: tuple[str, ...] = ()

    def front_matter(self, lines: list[str]) -> int:
        """Take in the front matter; returns the number of lines it takes."""
        first = next(index for index, line in enumerate(lines) if line.strip())
        opened = _FENCE.match(lines[first])
        if not opened:
            if lines[first].lstrip().startswith("{"):
                return self._bare_json(lines, first)
            return 0
        fence = opened[1]
        end = next((i for i in range(first + 1, len(lines)) if lines[i].rstrip() == fence), None)
        if end is None:
            if fence == "---":
                return 0  # a rule across the page
            raise InvalidInput("front matter is never closed", where=f"{self.where}:{first + 1}")
        body = "\n".join(lines[first + 1 : end])
        if fence == "---" and not body.lstrip().startswith("{") and ":" not in body:
            return 0  # two rules with prose between them
        self._data(body, line=first + 2, kind={"---": "yaml", "+++": "toml", ";;;": "json"}[fence], strict=True)
        return end + 1

    def _bare_json(self, lines: list[str], first: int) -> int:
        """JSON at the very beginning: the whole file, or front matter as some generators write it."""
        text = "\n".join(lines[first:])
        try:
            _, end = json.JSONDecoder().raw_decode(text.lstrip())
        except (ValueError, RecursionError) as error:
            if self.where.endswith(".json"):
                raise InvalidInput(f"not JSON: {error}", where=self.where) from error
            return 0
        end += len(text) - len(text.lstrip())
        self._data(text[:end], line=first + 1, kind="json", strict=True)
        return first + text.count("\n", 0, end) + 1

    def _data(self, text: str, *, line: int, kind: str, strict: bool) -> bool:
        """Flatten YAML, TOML or JSON into statements; whether it was any."""
        try:
            found = list(flat_values(text, line=line, kind=kind, where=self.where))
        except InvalidInput:
            if strict:
                raise
            return False
        for path, value, at in found:
            self.statements.append(
                Statement(kind="data", text=value[:_PIECE], line=at, label=" ".join(path)[:400], section=self.section)
            )
        return True

    def markdown(self, text: str) -> None:
        tokens = _parser().parse(text)
        index = 0
        while index < len(tokens):
            index = self._block(tokens, index)

    def _block(self, tokens: list[Token], index: int) -> int:
        token = tokens[index]
        line = (token.map[0] if token.map else 0) + 1
        if token.type == "heading_open":
            level = int(token.tag[1])
            heading = _plain(tokens[index + 1])[:200]
            self.section = (*self.section[: level - 1], heading)
            # A heading may hold the claim itself: "KLD 0.012 vs BF16".
            self._prose(self.section[-1], line)
            return index + 3
        if token.type == "table_open":
            return self._table(tokens, index)
        if token.type == "inline":
            self._prose(_plain(token), line)
        elif token.type in ("fence", "code_block"):
            self._code(token.content, info=token.info.strip().lower(), line=line + (token.type == "fence"))
        elif token.type == "html_block":
            self._html(token.content, line)
        return index + 1

    def _prose(self, text: str, line: int) -> None:
        position = 0
        for sentence in (piece for whole in _SENTENCE_END.split(text) for piece in _pieces(whole)):
            at = text.find(sentence, position)
            position = at + len(sentence)
            if sentence.strip():
                first_line = line + text.count("\n", 0, at)
                self.statements.append(
                    Statement(
                        kind="prose", text=" ".join(sentence.split()), line=first_line, section=self.section
                    )
                )  # fmt: skip

    def _table(self, tokens: list[Token], index: int) -> int:
        cells = Cells()
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                cells.rows.append([])
                cells.lines.append((token.map[0] if token.map else 0) + 1)
            elif token.type == "inline":
                cells.rows[-1].append(_plain(token))
            index += 1
        self._add_table(cells)
        return index + 1

    def _add_table(self, cells: Cells) -> None:
        if not cells.rows:
            return
        width = max(map(len, cells.rows))
        rows = [tuple((row + [""] * width)[:width]) for row in cells.rows]
        number = len(self.tables)
        self.tables.append(
            Table(
                line=cells.lines[0],
                headers=rows[0],
                rows=tuple(rows[1:]),
                lines=tuple(cells.lines[1:]),
                section=self.section,
            )
        )
        for at, (row, line) in enumerate(zip(rows[1:], cells.lines[1:], strict=True)):
            for column, cell in enumerate(row):
                # Of two columns the first says what the second is.
                if not cell.strip() or (width == 2 and column == 0):
                    continue
                parts = [row[0], rows[0][column]] if width == 2 else [rows[0][column], row[0] if column else ""]
                self.statements.append(
                    Statement(
                        kind="cell",
                        text=cell[:_PIECE],
                        line=line,
                        label=" | ".join(part[:200] for part in parts if part),
                        section=self.section,
                        table=number,
                        row=at,
                        column=column,
                    )
                )

    def _code(self, text: str, *, info: str, line: int) -> None:
        language = info.split()[0] if info else ""
        if language in ("json", "yaml", "yml", "toml") or (not language and text.lstrip().startswith("{")):
            kind = "json" if text.lstrip().startswith("{") else {"yml": "yaml"}.get(language, language)
            if self._data(text, line=line, kind=kind or "json", strict=False):
                return
        # Continued lines are one command.
        joined: list[tuple[int, str]] = []
        for offset, part in enumerate(text.split("\n")):
            if joined and joined[-1][1].endswith("\\"):
                joined[-1] = (joined[-1][0], f"{joined[-1][1][:-1].rstrip()} {part.strip()}")
            else:
                joined.append((line + offset, part.rstrip()))
        for at, part in joined:
            if part.strip():
                kind_: Kind = "command" if _COMMAND.search(part) else "output"
                self.statements.append(Statement(kind=kind_, text=part[:_PIECE], line=at, section=self.section))

    def _html(self, html: str, line: int) -> None:
        tables, texts = read_html(html, line)
        for cells in tables:
            self._add_table(cells)
        for at, text in texts:
            self._prose(text, at)


def _pieces(text: str) -> Iterator[str]:
    """`text`, cut at spaces where it is longer than anything that a person writes in one breath."""
    while len(text) > _PIECE:
        cut = text.rfind(" ", 1, _PIECE)
        cut = _PIECE if cut < 0 else cut
        yield text[:cut]
        text = text[cut:]
    yield text


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table")


def _plain(inline: Token) -> str:
    """The text of an inline token without its markup; addresses of links stay, since they may hold a revision."""
    parts = []
    for child in inline.children or []:
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "image":
            parts.append(child.content)
        elif child.type == "link_open":
            href = str(child.attrs.get("href", ""))
            if re.search(r"/(tree|blob|commit|resolve)/", href):
                parts.append(f"{href} ")
        elif child.type == "html_inline" and child.content.lower().startswith("<br"):
            parts.append("\n")
    return "".join(parts).strip()
