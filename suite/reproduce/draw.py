"""Which positions are captured again: all of the lock's, or some that the operating system's randomness chose."""

from __future__ import annotations

from collections.abc import Sequence
from random import SystemRandom
from typing import Protocol

from suite.errors import InvalidInput
from suite.manifest.lock import LockedCapture
from suite.manifest.positions import Range, probe_positions


class Random(Protocol):
    """What a draw needs of a source of randomness."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """`k` different members of `population`, in random order."""


def positions_of(capture: LockedCapture, *, num_tokens: int) -> list[int]:
    """The positions that a lock's capture policy probes, ascending."""
    return probe_positions(path=capture.path, stride=capture.stride, ranges=capture.ranges, num_tokens=num_tokens)


def draw(capture: LockedCapture, *, num_tokens: int, count: int, random: Random | None = None) -> LockedCapture:
    """A capture policy of some of the positions of `capture`, drawn without replacement.

    The rows keep their bits. Prefill: the whole prompt is read in the steps that the lock's settings give, whichever
    rows are kept, and the head is applied at the lock's constant row count; each position is drawn for itself. Decode:
    the step at a position needs those before it in its turn, so that whole ranges are drawn until they hold `count`
    positions.

    Args:
        capture: Of the lock.
        num_tokens: Of its workload.
        count: Positions wanted; decode may give more.
        random: The operating system's by default, which nobody can foresee or grind.

    Raises:
        InvalidInput: there are not so many.
    """
    known = positions_of(capture, num_tokens=num_tokens)
    if not 1 <= count <= len(known):
        raise InvalidInput(
            f"{count:,} positions cannot be drawn of {len(known):,}",
            where="--positions",
            hint=f"give `all`, or a number from 1 to {len(known):,}",
        )
    random = random or SystemRandom()
    if capture.path == "decode":
        ranges = _whole_ranges(capture, num_tokens, count, random)
    else:
        ranges = _ranges_of(sorted(random.sample(known, count)))
    return capture.model_copy(update={"stride": None, "ranges": ranges})


def _ranges_of(positions: Sequence[int]) -> tuple[Range, ...]:
    """Prefill ranges that probe exactly these positions: the probe at p stands in `[p + 1, p + 2)`."""
    ranges: list[Range] = []
    for position in positions:
        if ranges and ranges[-1][1] == position + 1:
            ranges[-1] = (ranges[-1][0], position + 2)
        else:
            ranges.append((position + 1, position + 2))
    return tuple(ranges)


def _whole_ranges(capture: LockedCapture, num_tokens: int, count: int, random: Random) -> tuple[Range, ...]:
    sizes = [
        len(probe_positions(path="decode", stride=None, ranges=(r,), num_tokens=num_tokens)) for r in capture.ranges
    ]
    chosen: list[int] = []
    held = 0
    for index in random.sample(range(len(sizes)), len(sizes)):
        if held >= count:
            break
        if sizes[index]:
            chosen.append(index)
            held += sizes[index]
    return tuple(capture.ranges[index] for index in sorted(chosen))
