"""The same comparison by window, range, turn or span kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from suite.bundle.show import shown
from suite.compare.comparison import Comparison
from suite.compare.entries import Entry
from suite.score.summary import Group

By = Literal["window", "range", "turn", "span"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """One window, range, turn or span kind, for every row of the table."""

    key: int | str
    n: int
    cells: tuple[Group, ...]
    """In the order of the table's rows."""

    @property
    def name(self) -> str:
        """The key as shown; `none` for probes that belong to no range, turn or span."""
        return "none" if self.key in (-1, "") else shown(self.key)


def groups(comparison: Comparison, by: By) -> tuple[GroupRow, ...]:
    """Counts per group. All rows are of one cohort, so they have the same groups with the same n."""
    per_entry = [groups_of(entry, by) for entry in comparison.rows]
    return tuple(GroupRow(key=cells[0].key, n=cells[0].n, cells=tuple(cells)) for cells in zip(*per_entry, strict=True))


def groups_of(entry: Entry, by: By) -> tuple[Group, ...]:
    """The groups of one row."""
    found: tuple[Group, ...] = getattr(entry.headlines, f"by_{by}")
    return found
