"""Figures published elsewhere, from `site/published/*.json`: shown apart, never ranked, each with its source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.records import parse_strictly
from suite.site.urls import allowed_url

SCHEMA_VERSION = 1

Text = Annotated[str, Field(min_length=1, max_length=1200)]
Origin = Literal["stated", "exact from percent", "rounded from percent", "baseline", "not given"]
ORIGINS: dict[Origin, str] = {
    "stated": "count as published",
    "exact from percent": "the only count that gives the published percentage",
    "rounded from percent": "nearest count to a rounded percentage",
    "baseline": "zero by definition",
    "not given": "no count was published",
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Source(_Strict):
    """Where a figure was read."""

    title: Text
    url: Text
    """An https address of a host that `suite.site.urls` knows."""
    detail: str = ""
    """File and commit, or the date."""

    @model_validator(mode="after")
    def _known_host(self) -> Self:
        if allowed_url(self.url) is None:
            raise ValueError(f"{self.url} is no https address of a host in suite.site.urls")
        return self


class PublishedRow(_Strict):
    """One figure."""

    stack: Text
    """What was changed against the table's baseline."""
    where: str = ""
    """Window, range or set of positions."""
    flips: Annotated[int, Field(ge=0)] | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    percent: float | None = None
    """As published, where it was."""
    origin: Origin = "not given"
    """Where `flips` comes from."""
    value: str = ""
    """A figure that is no count of flips, with its unit."""
    outcome: str = ""
    """What was said of tool calls."""
    note: str = ""

    @model_validator(mode="after")
    def _count_is_whole(self) -> Self:
        if self.flips is not None and self.n is not None:
            if self.flips > self.n:
                raise ValueError(f"{self.stack}: {self.flips} flips of {self.n}")
            if self.origin == "exact from percent":
                if self.percent is None:
                    raise ValueError(f"{self.stack}: exact from which percentage?")
                fits = [k for k in (self.flips - 1, self.flips, self.flips + 1) if self._gives_percent(k)]
                if fits != [self.flips]:
                    raise ValueError(f"{self.stack}: {self.percent} % of {self.n} is not {self.flips} alone")
        if self.origin == "not given" and self.flips is not None:
            raise ValueError(f"{self.stack}: a count without its origin")
        return self

    def _gives_percent(self, flips: int) -> bool:
        assert self.n is not None
        assert self.percent is not None
        digits = len(f"{self.percent!r}".partition(".")[2])
        return bool(abs(round(100 * flips / self.n, digits) - self.percent) < 0.5 * 10**-digits)


class PublishedTable(_Strict):
    """Figures of one GPU and model that were measured at the same positions against the same baseline."""

    gpu: Text
    model: Text
    title: Text
    baseline: Annotated[str, Field(max_length=300)] = ""
    """Empty where nothing is compared."""
    population: Text
    """Which positions, by which path."""
    columns: tuple[Literal["flips", "value", "outcome"], ...]
    rows: Annotated[tuple[PublishedRow, ...], Field(min_length=1)]
    outcomes: str = "Tool calls"
    """What the outcomes speak of."""
    note: str = ""

    @property
    def has_places(self) -> bool:
        """Whether rows are of different places."""
        return any(row.where for row in self.rows)


class Published(_Strict):
    """One publication."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,60}$")]
    title: Text
    author: Text
    date: Text
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    method: Text
    caution: Text
    """What the figures must not be quoted for, and what is not known of them."""
    tables: tuple[PublishedTable, ...]

    def restricted(self, gpu: str, model: str) -> Published:
        """The same publication with the tables of one GPU and model."""
        tables = tuple(table for table in self.tables if (table.gpu, table.model) == (gpu, model))
        return self.model_copy(update={"tables": tables})


def load_published(folder: Path) -> tuple[Published, ...]:
    """All publications of a folder, by name.

    Raises:
        InvalidInput: a file is not strict JSON, or not such a publication.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".schema.json"):
            continue
        found.append(parse_strictly(Published, path.read_bytes(), where=path.name, newest=SCHEMA_VERSION))
    return tuple(found)
