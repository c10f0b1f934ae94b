"""The repeat floor: how far fresh starts of one stack lie from its own first start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.capture.index import Count, Sha256
from suite.capture.store import Capture, Choice, ProbeTable
from suite.errors import InvalidInput
from suite.score.classes import FlipClass, flip_class
from suite.score.comparable import require_comparable


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RepeatFlip(_Strict):
    """One position at which a repeat chose another token than start 0."""

    position: Count
    first_top1: Count
    """Top-1 of start 0."""
    top1: Count
    """Top-1 of the repeat."""
    flip_class: FlipClass


class RepeatStart(_Strict):
    """One fresh start against start 0 of the same lock (start 0 itself stands there with no flips)."""

    start: Count
    n: Count
    identical_rows: Count
    """Rows equal to start 0's bit for bit."""
    flips: tuple[RepeatFlip, ...]
    rows_sha256: Sha256
    """Over all row hashes in order."""
    index_sha256: Sha256
    receipt_sha256: Sha256


class Repeats(_Strict):
    """`repeats.json`: what the repeat floor is counted from. Never subtracted from anything."""

    schema_version: Literal[1] = 1
    capture_digest: Sha256
    starts: Annotated[tuple[RepeatStart, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        first = self.starts[0]
        for start in self.starts:
            if (
                start.n != first.n
                or start.identical_rows > start.n
                or len(start.flips) > start.n - start.identical_rows
            ):
                raise ValueError(f"the counts of start {start.start} contradict each other")
            if (start.identical_rows == start.n) != (start.rows_sha256 == first.rows_sha256):
                raise ValueError(f"start {start.start}: identical_rows contradicts rows_sha256")
            if any(flip.first_top1 == flip.top1 for flip in start.flips):
                raise ValueError(f"start {start.start} lists a flip between equal tokens")
        numbers = [start.start for start in self.starts]
        if sorted(set(numbers)) != numbers:
            raise ValueError("starts are not in order, or one stands twice")
        if first.identical_rows != first.n:
            raise ValueError("the first start differs from itself")
        return self


class FloorStart(_Strict):
    """The counts of one start."""

    start: Count
    flips: Count
    identical_rows: Count
    n: Count


class RepeatFloor(_Strict):
    """Counts per start; the first is the one all are compared with."""

    starts: Annotated[tuple[FloorStart, ...], Field(min_length=1)]

    def text(self) -> str:
        """One line for people, for example `0 flips, all rows identical (of 3 starts, n = 218)`."""
        others = self.starts[1:]
        of = f"of {len(self.starts)} start{'s' if len(self.starts) != 1 else ''}, n = {self.starts[0].n}"
        if not others:
            return f"not measured ({of})"
        flips = ", ".join(str(start.flips) for start in others)
        same = sum(start.identical_rows == start.n for start in others)
        rows = "all rows identical" if same == len(others) else f"{same} of {len(others)} repeats bit-identical"
        word = "flip" if flips == "1" else "flips"
        few = "" if len(self.starts) >= 3 else "; fewer than three starts"
        return f"{flips} {word}, {rows} ({of}{few})"


def repeat_floor(starts: Sequence[Capture]) -> Repeats:
    """Compare each start of one lock with the first.

    Rows are compared by hash; only where hashes differ is a probe looked at further.

    Args:
        starts: Captures of one lock in order of their start number; one alone gives a floor that says "of 1 start".

    Raises:
        InvalidInput: they are of different locks, or not comparable.
        VerificationFailed: a chunk is damaged.
    """
    first = starts[0]
    base = first.probes()
    rows = []
    for capture in starts:
        if capture.index.capture_digest != first.index.capture_digest:
            raise InvalidInput(
                "a repeat is of another lock: the starts differ in capture_digest",
                where=str(capture.folder),
                hint="repeat the same lock",
            )
        require_comparable(first.index, capture.index)
        table = base if capture is first else capture.probes()
        if not np.array_equal(table.positions, base.positions):
            raise InvalidInput("the starts differ in positions", where=str(capture.folder))
        rows.append(_start(first, capture, base, table))
    return Repeats(capture_digest=first.index.capture_digest, starts=tuple(rows))


def floor_of(repeats: Repeats) -> RepeatFloor:
    """The counts that `repeats.json` amounts to."""
    return RepeatFloor(
        starts=tuple(
            FloorStart(start=s.start, flips=len(s.flips), identical_rows=s.identical_rows, n=s.n)
            for s in repeats.starts
        )
    )


def _start(first: Capture, capture: Capture, base: ProbeTable, table: ProbeTable) -> RepeatStart:
    identical = (table.row_sha256 == base.row_sha256).all(axis=1)
    pairs = zip(first.choices(~identical), capture.choices(~identical), strict=True) if not identical.all() else ()
    return RepeatStart(
        start=capture.index.start,
        n=len(base.positions),
        identical_rows=int(identical.sum()),
        flips=tuple(_flip(ours, theirs) for ours, theirs in pairs if ours.top1 != theirs.top1),
        rows_sha256=table.rows_sha256,
        index_sha256=capture.index_sha256,
        receipt_sha256=capture.index.receipt_sha256,
    )


def _flip(ours: Choice, theirs: Choice) -> RepeatFlip:
    tied = theirs.top1 in ours.best_ids or ours.top1 in theirs.best_ids
    return RepeatFlip(
        position=ours.position,
        first_top1=ours.top1,
        top1=theirs.top1,
        flip_class=flip_class(tied, ours.p_top1),
    )
