"""A rendered session as stretches of text of one kind each, for people to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from suite.workload.rendered import Rendered, SpanKind
from suite.workload.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Consecutive tokens of one kind in one turn."""

    kind: SpanKind
    literal: bool
    turn: int
    role: str
    start: int
    end: int
    """Half-open token range."""
    text: str


def segments(rendered: Rendered, tokenizer: Tokenizer) -> Iterator[Segment]:
    """All of them in order; together they spell the whole text."""
    pieces = tokenizer.pieces(rendered.token_ids)
    kinds, literals, turns = rendered.kinds(), rendered.literal_mask(), rendered.turn_indices()
    start = 0
    for index in range(1, len(pieces) + 1):
        here = (kinds[start], literals[start], turns[start])
        if index < len(pieces) and (kinds[index], literals[index], turns[index]) == here:
            continue
        text = b"".join(pieces[start:index]).decode(errors="replace")
        role = rendered.turns[here[2]].role
        yield Segment(kind=here[0], literal=here[1], turn=here[2], role=role, start=start, end=index, text=text)
        start = index
