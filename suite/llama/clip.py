"""How far below the best token a base file reaches: two programs write the same layout with different clips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from suite.errors import InvalidInput
from suite.llama.codes import CODE_MAX

WRITERS = {16: "llama.cpp", 24: "ik_llama.cpp"}
"""Clip in nats -> the program that uses it."""

_SLACK_NATS = 1e-3
"""A stored span is (best - floor)/65535 in float32, so it misses its clip by some 1e-6."""

ClipChoice = Literal["16", "24", "auto"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """The clip of one file, and how it is known: the file itself does not say."""

    nats: int | None
    """16 or 24; None where no row was clipped, so that it makes no difference."""
    source: Literal["stated", "inferred", "undetermined"]
    span_nats: float
    """Largest span of a row, from its best token down to its code 0."""

    def text(self) -> str:
        """One line for people."""
        if self.nats is None:
            return f"clip not determined: no row was clipped (largest span {self.span_nats:.3f} nats)"
        if self.source == "stated":
            return f"clip max-{self.nats} ({WRITERS[self.nats]}), as stated"
        return f"clip max-{self.nats} ({WRITERS[self.nats]}), inferred: the largest span is {self.span_nats:.3f} nats"


def span_nats(scale: float) -> float:
    """Nats between code 0 and code 65535."""
    return scale * CODE_MAX


def clipped_rows(scales: NDArray[np.float32], nats: int) -> NDArray[np.bool_]:
    """Which of n rows span exactly the clip, so that their code 0 means "this or less"."""
    clipped: NDArray[np.bool_] = np.abs(scales.astype(np.float64) * CODE_MAX - nats) < _SLACK_NATS
    return clipped


def resolve_clip(choice: ClipChoice, largest_span_nats: float, *, where: str) -> Clip:
    """The clip of a file whose widest row spans `largest_span_nats`.

    A clipped row spans exactly its clip. A span of 16 therefore means max-16, anything wider max-24. Only a file
    in which every row is narrower than 16 leaves it open, and then nothing was clipped.

    Raises:
        InvalidInput: a span that the stated clip, or any known one, cannot give.
    """
    allowed = max(WRITERS) if choice == "auto" else int(choice)
    if largest_span_nats > allowed + _SLACK_NATS:
        raise InvalidInput(
            f"a row spans {largest_span_nats:.3f} nats, more than max-{allowed} leaves",
            where=where,
            hint="use --clip auto" if choice == "16" else "the file is damaged, or of a program not known here",
        )
    if choice != "auto":
        return Clip(nats=allowed, source="stated", span_nats=largest_span_nats)
    if largest_span_nats > 16 + _SLACK_NATS:
        return Clip(nats=24, source="inferred", span_nats=largest_span_nats)
    if largest_span_nats >= 16 - _SLACK_NATS:
        return Clip(nats=16, source="inferred", span_nats=largest_span_nats)
    return Clip(nats=None, source="undetermined", span_nats=largest_span_nats)
