"""Reading futures: the text of each token, where the envelope closes, and what a fork's turn held before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from suite.branch.grader import STOP_TEXTS, Grader
from suite.branch.schema import Finish, Future, Role
from suite.errors import InvalidInput
from suite.grade.detect import detect_format
from suite.grade.interface import Parsed, State
from suite.grade.tokens import TokenFeed
from suite.grade.verdict import shown_text
from suite.replay.rendering import reasoning_is_open
from suite.workload.rendered import Rendered

_LONGEST_MARK = max(len(mark) for marks in STOP_TEXTS.values() for mark in marks)

Decode = Callable[[Sequence[int]], str]
"""Ids to text, special tokens kept, no space cleaned up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RawFuture:
    """What an engine wrote after one first token."""

    role: Role
    engine_token_id: int | None
    """See `Future`."""
    token_ids: tuple[int, ...]
    finish: Finish
    batch: int
    order: int
    cached_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a fork stands in its turn."""

    turn: int
    """Index of the message."""
    reasoning_open: bool
    """The template itself opened the reasoning."""
    history_ids: tuple[int, ...]
    """What the assistant had written of the turn, the token at the fork's position included."""
    turn_text: str
    recorded_text: str
    """What the session has from the fork to the end of the turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """Reads futures of one session."""

    rendered: Rendered
    decode: Decode
    grader: Grader

    def place(self, position: int) -> Place:
        """Where the fork at a position stands.

        Args:
            position: Of the ledger; the token after it is one that the assistant writes.
        """
        ids = self.rendered.token_ids
        turn = next(turn for turn in self.rendered.turns if turn.start <= position + 1 < turn.end)
        assert turn.output_start is not None
        end = max(s.end for s in self.rendered.spans if s.kind == "assistant_output" and s.turn == turn.index)
        history = ids[turn.output_start : position + 1]
        return Place(
            turn=turn.index,
            reasoning_open=reasoning_is_open(self.decode(ids[turn.start : turn.output_start])),
            history_ids=history,
            turn_text=shown_text(self.decode(history)),
            recorded_text=shown_text(self.decode(ids[position + 1 : end])),
        )

    def read(self, raw: RawFuture, place: Place) -> Future:
        """The future with its texts, states, calls and verdict.

        A closing mark that began before the fork is not seen by the engine: what follows it is cut off here.
        """
        pieces = _Pieces()
        feed = TokenFeed(pieces, self.decode)
        feed.feed(place.history_ids)
        feed.finish()
        pieces.taken()
        texts: list[str] = []
        finish, tail = raw.finish, place.turn_text
        for token_id in raw.token_ids:
            feed.feed([token_id])
            text = pieces.taken()
            texts.append(text)
            tail = tail[-_LONGEST_MARK:] + text
            if finish != "not_continued" and self._closes(tail, len(text)):
                finish = "envelope"
                break
        feed.finish()
        texts[-1] += pieces.taken()
        texts = list(map(shown_text, texts))
        grade = self.grader.grade(place.turn_text, texts, finish, turn=place.turn, reasoning_open=place.reasoning_open)
        return Future(
            role=raw.role,
            first_token_id=raw.token_ids[0],
            engine_token_id=raw.engine_token_id,
            finish=finish,
            token_ids=raw.token_ids[: len(texts)],
            token_texts=tuple(texts),
            states=grade.states,
            batch=raw.batch,
            order=raw.order,
            cached_tokens=raw.cached_tokens,
            verdict=grade.verdict,
            calls=grade.calls,
        )

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """Marks that end a future."""
        return STOP_TEXTS.get(self.grader.format or "", ())

    def _closes(self, text: str, new: int) -> bool:
        """Whether the last `new` characters complete a closing mark."""
        return any(text.find(mark, max(0, len(text) - new - len(mark) + 1)) >= 0 for mark in self.stop_texts)


def session_format(rendered: Rendered, decode: Decode) -> str | None:
    """The format in which a session's own calls are rendered; None where it holds none of a known format."""
    for span in rendered.spans:
        if span.kind == "tool_call":
            try:
                found = detect_format(decode(rendered.token_ids[span.start : span.end]))
            except InvalidInput:
                continue
            if found is not None:
                return found
    return None


class _Pieces:
    """Stands for a grammar at the end of a feed, and keeps what the feed hands over."""

    name = ""
    state = State.OUTSIDE

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, text: str) -> State:
        """Keep one piece."""
        self._pieces.append(text)
        return self.state

    def finish(self) -> Parsed:
        """Nothing was read."""
        return Parsed(format="", calls=(), stray=None, length=0)

    def taken(self) -> str:
        """What was handed over since the last call."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text
