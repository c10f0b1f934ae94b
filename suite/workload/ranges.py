"""Which ranges of a session are worth capturing whole, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from suite.errors import InvalidInput
from suite.manifest.positions import from_turn_starts, probe_positions
from suite.run.captures import capture_bytes
from suite.stack.memory import ModelShape
from suite.workload.rendered import Rendered

Range = tuple[int, int]
Path_ = Literal["prefill", "decode"]

FLOPS_OF_A_CPU_THREAD = 150e9
"""Operations a second of one thread in BF16, roughly; two operations for each parameter and token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """One choice of ranges, with its cost."""

    name: str
    why: str
    ranges: tuple[Range, ...]
    """Sorted, disjoint, half-open token ranges."""
    num_probes: int
    logits_bytes: int | None
    """Disk of one start with whole rows; None without the model's sizes."""
    hidden_bytes: int | None
    """The same with hidden states."""
    minutes: float | None
    """One start: prefill of the session up to the last range, or its forced decode steps; None without a rate."""


def propose(
    rendered: Rendered,
    *,
    path: Path_,
    around_tokens: int,
    shape: ModelShape | None = None,
    prefill_tokens_per_second: float | None = None,
    decode_tokens_per_second: float | None = None,
) -> tuple[Proposal, ...]:
    """Choices from the cheapest to the dearest; empty ones are left out.

    Args:
        rendered: The session as tokens.
        path: Prefill captures any range; decode captures whole beginnings of the assistant's turns.
        around_tokens: Tokens before and after a literal that belong to it.
        shape: The model's sizes, for bytes.
        prefill_tokens_per_second: Speed of reading, for minutes.
        decode_tokens_per_second: Speed of writing, for minutes.

    Raises:
        InvalidInput: the session holds nothing of the assistant's.
    """
    output = rendered.ranges(["assistant_output"])
    if not output:
        raise InvalidInput("the session holds no output of an assistant", where="messages")
    calls = rendered.ranges(["tool_call"])
    literals = _around(rendered, output, around_tokens)
    choices = (
        ("literals", f"marked literals in the assistant's output and {around_tokens} tokens on each side", literals),
        ("tool calls", "whole calls with their envelopes: what a parser reads", calls),
        ("tool calls and literals", "both of the above", _merged([*calls, *literals])),
        ("assistant output", "all that the assistant writes, reasoning included", output),
    )
    proposals: list[Proposal] = []
    for name, why, given in choices:
        ranges = tuple((max(a, 1), b) for a, b in given if b > 1)
        if path == "decode":
            ranges = from_turn_starts(ranges, rendered)
        positions = probe_positions(path=path, stride=None, ranges=ranges, num_tokens=rendered.num_tokens)
        if not positions or any(ranges == earlier.ranges for earlier in proposals):
            continue
        proposals.append(
            Proposal(
                name=name,
                why=why,
                ranges=ranges,
                num_probes=len(positions),
                logits_bytes=_bytes(shape, len(positions), "logits"),
                hidden_bytes=_bytes(shape, len(positions), "hidden"),
                minutes=_minutes(path, rendered, ranges, prefill_tokens_per_second, decode_tokens_per_second),
            )
        )
    return tuple(proposals)


def _around(rendered: Rendered, output: Sequence[Range], tokens: int) -> tuple[Range, ...]:
    """Literals of the assistant's output with their surroundings, inside that output."""
    widened = []
    for span in rendered.spans:
        if span.kind != "literal":
            continue
        for start, end in output:
            if start <= span.start and span.end <= end:
                widened.append((max(start, span.start - tokens), min(end, span.end + tokens)))
    return _merged(widened)


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def _bytes(shape: ModelShape | None, num_probes: int, codec: str) -> int | None:
    if shape is None:
        return None
    return capture_bytes(
        num_probes=num_probes,
        hidden_size=shape.hidden_size,
        vocab_size=shape.vocab_size,
        dtype="bfloat16",
        codec=codec,
    )


def _minutes(
    path: Path_, rendered: Rendered, ranges: Sequence[Range], prefill: float | None, decode: float | None
) -> float | None:
    # Prefill is never cut short: another last chunk would change the bits of its rows.
    seconds = None if prefill is None else rendered.num_tokens / prefill
    if path == "prefill" or seconds is None:
        return None if seconds is None else seconds / 60
    if decode is None:
        return None
    return (seconds + sum(b - a for a, b in ranges) / decode) / 60
