"""What reads one format: it says whether a file is of its kind, and yields drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from suite.untyped import Json, as_list
from suite.workload.importing.draft import Draft


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One file: its text, and its values if it is JSON or JSONL."""

    path: Path
    text: str
    value: Any
    """The parsed file; None if it is not one JSON value."""
    lines: tuple[Json, ...]
    """The objects of a JSONL file; empty if it is none."""


class Importer(Protocol):
    """One format."""

    @property
    def name(self) -> str:
        """For `--format`."""

    def recognises(self, source: Source) -> bool:
        """Whether the file is of this format; false for anything doubtful."""

    def read(self, source: Source) -> Iterator[Draft]:
        """Every conversation in the file."""


def messages_in(value: Any) -> list[Json]:
    """The objects of a list that carry a role; empty if some do not."""
    items = as_list(value)
    good = [item for item in items if isinstance(item, dict) and isinstance(item.get("role"), str)]
    return good if items and len(good) == len(items) else []
