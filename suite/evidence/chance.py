"""The chance that falsified rows escape a drawn sample, and how many rows must be drawn for a chance that one accepts.

Drawing `drawn` of `rows` without replacement, none of `falsified` is hit with probability
C(rows - falsified, drawn) / C(rows, drawn) (hypergeometric distribution). Computed in whole numbers, rounded once.
"""

from __future__ import annotations

import math

from suite.errors import InvalidInput

FALSIFIED = (1, 7, 28, 71, 356, 711)
"""Of 7,114 rows: one, and 0.1, 0.4, 1, 5 and 10 per cent."""
DRAWN = (64, 256, 512, 1024, 2048)


def escape_chance(*, rows: int, falsified: int, drawn: int) -> float:
    """Probability that `drawn` rows of `rows`, drawn without replacement, hold none of `falsified`.

    Raises:
        InvalidInput: a count is negative, or more rows are falsified or drawn than there are.
    """
    for name, count in (("falsified", falsified), ("drawn", drawn)):
        if not 0 <= count <= rows:
            raise InvalidInput(
                f"{count:,} {name} of {rows:,} rows", hint="give counts between 0 and the number of rows"
            )
    fewer, more = sorted((falsified, drawn))
    # perm(rows - more, fewer) / perm(rows, fewer) is the same quotient with the fewest factors.
    return math.perm(rows - more, fewer) / math.perm(rows, fewer)


def rows_needed(*, rows: int, falsified: int, chance: float) -> int:
    """The fewest rows to draw so that `falsified` rows escape with at most the probability `chance`.

    Raises:
        InvalidInput: nothing is falsified, or `chance` is no probability that a sample can reach.
    """
    if not 0 < falsified <= rows:
        raise InvalidInput(f"{falsified:,} falsified of {rows:,} rows", hint="give at least one and at most all")
    if not 0 <= chance < 1:
        raise InvalidInput(f"{chance} is no chance to escape", hint="give a number from 0 to below 1, such as 0.01")
    low, high = 0, rows - falsified + 1  # the latter hits one for certain
    while low < high:
        middle = (low + high) // 2
        if escape_chance(rows=rows, falsified=falsified, drawn=middle) <= chance:
            high = middle
        else:
            low = middle + 1
    return low


def escape_table(
    rows: int, *, falsified: tuple[int, ...] = FALSIFIED, drawn: tuple[int, ...] = DRAWN
) -> list[tuple[int, tuple[float, ...]]]:
    """Lines of (falsified rows, chance for each count in `drawn`); counts above `rows` are left out."""
    columns = tuple(count for count in drawn if count <= rows)
    return [
        (k, tuple(escape_chance(rows=rows, falsified=k, drawn=count) for count in columns))
        for k in falsified
        if k <= rows
    ]
