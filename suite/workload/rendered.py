"""A session as the model sees it: token ids, and which of them were written by whom."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from suite.errors import InvalidInput
from suite.files import canonical_json, sha256_bytes, strict_json

SCHEMA_VERSION = 1

SpanKind = Literal["system", "user", "assistant_output", "reasoning", "tool_call", "tool_result", "literal", "scaffold"]
OUTER_KINDS = frozenset({"system", "user", "assistant_output", "tool_result", "scaffold"})
"""Kinds that together cover every token exactly once; the others nest inside one of these."""

_MAX_TOKEN_ID = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A half-open token range `[start, end)`."""

    start: int
    end: int
    kind: SpanKind
    """`assistant_output` runs from the first token the assistant writes to its end-of-turn token, both included.
    `scaffold` is what the template writes: headers, tool definitions, separators."""
    turn: int
    """Index of the message it belongs to."""
    label: str | None = None
    """The tool's name for `tool_call` and `tool_result`, the text for `literal`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """The token range `[start, end)` of one message; turns follow each other without gaps."""

    index: int
    role: str
    start: int
    end: int
    output_start: int | None
    """First token that the assistant itself writes (after the generation prompt); None for other roles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """Something in a session's text that changes what the model sees."""

    turn: int
    role: str
    text: str
    """The text concerned, for instance a literal `<|im_end|>` inside a user's message."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """Token ids of a whole session with spans and turns, and the hashes of everything that decided them.

    Raises:
        ValueError: spans or turns break the rules stated at `Span` and `Turn`.
    """

    token_ids: tuple[int, ...]
    spans: tuple[Span, ...]
    """Sorted by start, longer first. Those of `OUTER_KINDS` cover `token_ids` exactly once."""
    turns: tuple[Turn, ...]
    workload_digest: str
    tokens_sha256: str
    tokenizer_sha256: str
    chat_template_sha256: str
    flags: tuple[Flag, ...] = field(default=())

    def __post_init__(self) -> None:
        _check(self)

    @property
    def num_tokens(self) -> int:
        """Length of the rendered session in tokens."""
        return len(self.token_ids)

    def kinds(self) -> tuple[SpanKind, ...]:
        """The innermost kind of every token, literals left aside (see `literal_mask`)."""
        result: list[SpanKind] = ["scaffold"] * len(self.token_ids)
        for span in self.spans:
            if span.kind != "literal":
                result[span.start : span.end] = [span.kind] * (span.end - span.start)
        return tuple(result)

    def literal_mask(self) -> tuple[bool, ...]:
        """For every token, whether it lies in a literal."""
        result = [False] * len(self.token_ids)
        for span in self.spans:
            if span.kind == "literal":
                result[span.start : span.end] = [True] * (span.end - span.start)
        return tuple(result)

    def turn_indices(self) -> tuple[int, ...]:
        """For every token, the index of its message."""
        return tuple(turn.index for turn in self.turns for _ in range(turn.start, turn.end))

    def ranges(self, kinds: Iterable[SpanKind]) -> tuple[tuple[int, int], ...]:
        """Sorted, disjoint half-open ranges covered by the given kinds; touching ranges stay apart by turn."""
        wanted = frozenset(kinds)
        merged: list[list[int]] = []
        for span in self.spans:
            if span.kind not in wanted:
                continue
            if merged and span.start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], span.end)
            else:
                merged.append([span.start, span.end])
        return tuple((start, end) for start, end in merged)

    def to_json(self) -> bytes:
        """Canonical JSON with `schema_version`; the same rendering gives the same bytes."""
        return canonical_json({"schema_version": SCHEMA_VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, data: bytes, *, where: str = "rendered workload") -> Rendered:
        """Read what `to_json` wrote.

        Raises:
            InvalidInput: another version, a missing or malformed field, or a hash that does not fit the ids.
        """
        value = strict_json(data, where=where)
        if not isinstance(value, dict) or value.pop("schema_version", None) != SCHEMA_VERSION:
            raise InvalidInput(f"not a rendered workload of schema version {SCHEMA_VERSION}", where=where)
        try:
            parts: dict[str, Any] = {
                "token_ids": tuple(value.pop("token_ids")),
                "spans": tuple(Span(**item) for item in value.pop("spans")),
                "turns": tuple(Turn(**item) for item in value.pop("turns")),
                "flags": tuple(Flag(**item) for item in value.pop("flags")),
            }
            return cls(**parts, **value)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a rendered workload: {error}", where=where, hint="render it again") from error


def tokens_sha256(token_ids: Iterable[int]) -> str:
    """SHA-256 of the ids as little-endian 32-bit integers, in order."""
    ids = tuple(token_ids)
    return sha256_bytes(struct.pack(f"<{len(ids)}i", *ids))


def _check(rendered: Rendered) -> None:
    total = len(rendered.token_ids)
    for token in rendered.token_ids:
        if type(token) is not int or not 0 <= token <= _MAX_TOKEN_ID:
            raise ValueError(f"{token!r} is not a token id")
    if tokens_sha256(rendered.token_ids) != rendered.tokens_sha256:
        raise ValueError("tokens_sha256 does not fit token_ids")
    position = 0
    for index, turn in enumerate(rendered.turns):
        if turn.index != index or turn.start != position or turn.end < turn.start:
            raise ValueError(f"turn {index} does not follow the one before it")
        if turn.output_start is not None and not turn.start <= turn.output_start <= turn.end:
            raise ValueError(f"turn {index} starts its output outside itself")
        position = turn.end
    if position != total:
        raise ValueError(f"turns end at {position}, tokens at {total}")
    _check_spans(rendered.spans, rendered.turns, total)


def _check_spans(spans: tuple[Span, ...], turns: tuple[Turn, ...], total: int) -> None:
    kinds = frozenset(get_args(SpanKind))
    if list(spans) != sorted(spans, key=span_order):
        raise ValueError("spans are not in order")
    covered = 0
    enclosing: list[Span] = []
    for span in spans:
        if span.kind not in kinds or not 0 <= span.start < span.end <= total:
            raise ValueError(f"not a span: {span}")
        if not 0 <= span.turn < len(turns):
            raise ValueError(f"span of a turn that does not exist: {span}")
        if span.start < turns[span.turn].start or span.end > turns[span.turn].end:
            raise ValueError(f"span outside its turn: {span}")
        while enclosing and enclosing[-1].end <= span.start:
            enclosing.pop()
        if span.kind in OUTER_KINDS:
            if span.start != covered:
                raise ValueError(f"outer spans leave a gap or overlap at token {covered}: {span}")
            covered = span.end
        elif not enclosing or span.end > enclosing[-1].end:
            raise ValueError(f"span not nested: {span}")
        if span.kind != "literal":  # two literals may share a token without one holding the other
            enclosing.append(span)
    if covered != total:
        raise ValueError(f"outer spans end at {covered}, tokens at {total}")


def span_order(span: Span) -> tuple[int, int, int, str, str]:
    """Sort key: by start, longer first, outer kinds before nested ones of the same range, then by kind and label."""
    nesting = 0 if span.kind in OUTER_KINDS else 2 if span.kind == "literal" else 1
    return (span.start, -span.end, nesting, span.kind, span.label or "")
