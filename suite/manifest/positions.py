"""Which tokens a capture policy means in one rendered workload, and at which positions the probes stand."""

from __future__ import annotations

from suite.errors import InvalidInput
from suite.manifest.schema import Capture, RangeSelection
from suite.workload.rendered import Rendered

Range = tuple[int, int]
"""Half-open token range `[start, end)`."""


def resolve_ranges(capture: Capture, rendered: Rendered) -> tuple[Range, ...]:
    """The token ranges of `capture` in `rendered`: sorted, disjoint, inside the workload.

    A range of the decode path starts where an assistant turn's own output starts, so that everything before it is
    prompt: ranges given by kind are extended back to that token, ranges given as numbers must stand there.

    Raises:
        InvalidInput: a range ends beyond the workload or starts inside a turn (decode), or nothing would be captured.
    """
    if isinstance(capture.ranges, tuple):
        ranges = _explicit(capture, capture.ranges, rendered)
    elif capture.ranges == "none":
        ranges = ()
    else:
        kinds = capture.ranges.kinds if isinstance(capture.ranges, RangeSelection) else ("assistant_output",)
        # Token 0 is predicted by nothing.
        ranges = tuple((max(a, 1), b) for a, b in rendered.ranges(kinds) if b > 1)
        if capture.path == "decode":
            ranges = from_turn_starts(ranges, rendered)
        if isinstance(capture.ranges, RangeSelection) and capture.ranges.max_positions is not None:
            ranges = _deepest(ranges, capture.ranges.max_positions)
    if not probe_positions(path=capture.path, stride=capture.stride, ranges=ranges, num_tokens=rendered.num_tokens):
        raise InvalidInput(
            "the capture policy selects no position of this workload",
            where="capture",
            hint="choose ranges that the session has, or a smaller stride",
        )
    return ranges


def probe_positions(*, path: str, stride: int | None, ranges: tuple[Range, ...], num_tokens: int) -> list[int]:
    """Positions of all probes, ascending. The probe at p holds the logits that predict token p + 1.

    Prefill: every p with p % stride == stride - 1, and for each range [a, b) the positions a-1 to b-2, which predict
    its tokens. Decode: a to b-2, since the token at a is chosen by the kernels that read the prompt. The last token has
    no target and is never a probe.
    """
    positions: set[int] = set()
    if stride is not None:
        positions.update(range(stride - 1, num_tokens - 1, stride))
    first = 0 if path == "decode" else -1
    for a, b in ranges:
        positions.update(range(max(a + first, 0), min(b, num_tokens) - 1))
    return sorted(positions)


def _explicit(capture: Capture, ranges: tuple[Range, ...], rendered: Rendered) -> tuple[Range, ...]:
    starts = [turn.output_start for turn in rendered.turns if turn.output_start is not None]
    for a, b in ranges:
        if b > rendered.num_tokens:
            raise InvalidInput(
                f"range [{a}, {b}) ends beyond the workload's {rendered.num_tokens:,} tokens", where="capture.ranges"
            )
        if capture.path == "decode" and a not in starts:
            near = min(starts, key=lambda start: abs(start - a), default=None)
            raise InvalidInput(
                f"range [{a}, {b}) does not start where an assistant turn's output starts",
                where="capture.ranges",
                hint=f"the nearest such token is {near}" if near is not None else "the session has no assistant turn",
            )
    return ranges


def from_turn_starts(ranges: tuple[Range, ...], rendered: Rendered) -> tuple[Range, ...]:
    """One range for each assistant turn that holds any of `ranges`: from the turn's first own token to the last end."""
    ends: dict[int, int] = {}
    for turn in rendered.turns:
        if turn.output_start is None:
            continue
        held = [b for a, b in ranges if turn.output_start <= a and b <= turn.end]
        if held:
            ends[turn.output_start] = max(held)
    return tuple((a, b) for a, b in sorted(ends.items()) if b - a > 1)


def _deepest(ranges: tuple[Range, ...], max_positions: int) -> tuple[Range, ...]:
    """Whole ranges from the end backwards while they fit, and at least one."""
    chosen: list[Range] = []
    total = 0
    for a, b in reversed(ranges):
        if chosen and total + b - a > max_positions:
            break
        chosen.append((a, b))
        total += b - a
    return tuple(reversed(chosen))
