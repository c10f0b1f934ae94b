"""What is wrong with a manifest, gathered so that one look shows every fault with its file and line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from suite.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a key or value stands."""

    file: Path
    line: int
    """Counted from 1; 0 for a file that could not be read."""

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}" if self.line else str(shown(self.file))


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One fault of one file."""

    place: Place
    key: str
    """Dotted path of the key, empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"

    @property
    def text(self) -> str:
        """The fault with its key, without its place."""
        return f"{self.key}: {self.message}" if self.key else self.message


class InvalidManifest(InvalidInput):
    """A manifest or one of the files it extends cannot be used. Exit code 2."""

    def __init__(self, problems: Iterable[Problem], *, hint: str | None = None) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (str(p.place.file), p.place.line, p.key)))
        if len(self.problems) == 1:
            super().__init__(self.problems[0].text, where=str(self.problems[0].place), hint=hint)
        else:
            lines = [f"{len(self.problems)} faults", *(f"  {problem}" for problem in self.problems)]
            super().__init__("\n".join(lines), hint=hint)


def shown(file: Path) -> str:
    """`file` as a person would type it: relative to the working folder where it lies below it."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)
