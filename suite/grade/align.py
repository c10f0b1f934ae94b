"""Which literal a changed one most likely comes from: edit distance with bounds, and whole parts lost or added."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

MAX_CANDIDATES = 256
_OTHER_KIND = 0.15
"""A changed prefix length is likelier than an address that became a network."""
_FAMILIES = {
    "address": "address",
    "network": "address",
    "mac": "mac",
    "uuid": "uuid",
    "interface": "name",
    "host": "name",
    "identifier": "name",
    "endpoint": "name",
    "url": "path",
    "path": "path",
    "port": "number",
    "number": "number",
    "version": "number",
    "": "name",
}
_PARTS = re.compile(r"[./:_-]")


def distance(left: str, right: str, *, bound: int) -> int:
    """Levenshtein distance, or `bound + 1` if it is larger."""
    if abs(len(left) - len(right)) > bound:
        return bound + 1
    previous = list(range(len(right) + 1))
    for row, first in enumerate(left, start=1):
        current = [row]
        for column, second in enumerate(right, start=1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (first != second)))
        if min(current) > bound:
            return bound + 1
        previous = current
    return min(previous[-1], bound + 1)


def bound_for(left: str, right: str) -> int:
    """Most edits after which one still counts as a mutation of the other; a fifth of a literal of 20 characters."""
    length = max(len(left), len(right))
    return max(1, min(length * 2 // 5, 2 + length // 10))


def cost(source: str, mutant: str) -> float | None:
    """How far `mutant` lies from `source`, 0 to 1; None if it is no mutation of it.

    One that lost or gained whole parts at an end (`page_size` to `size`, `Gi0/1.201` to `Gi0/1`) is near.
    """
    if source == mutant:
        return None
    short, long = sorted((source, mutant), key=len)
    if len(short) >= 2 and (
        (long.startswith(short) and _PARTS.match(long[len(short)]))
        or (long.endswith(short) and _PARTS.match(long[-len(short) - 1]))
    ):
        return 0.3 * (1 - len(short) / len(long))
    if len(short) < 3:
        return None
    bound = bound_for(source, mutant)
    edits = distance(source, mutant, bound=bound)
    return edits / len(long) if edits <= bound else None


def related(source_kind: str, mutant: str, mutant_kind: str) -> bool:
    """Whether a literal of one kind can have become a word of the other: `5432` became `543ql`, no host name did."""
    left, right = _FAMILIES.get(source_kind, "name"), _FAMILIES.get(mutant_kind, "name")
    # An address that lost a part looks like a version.
    if left == right or {source_kind, mutant_kind} == {"address", "version"}:
        return True
    return mutant[:1].isdigit() and "number" in (left, right) and "name" in (left, right)


class Candidates:
    """Literals in their order, found by how they begin and end: a mutation leaves one end as it was."""

    def __init__(self, words: Iterable[tuple[str, str]]) -> None:
        self._by_start: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        self._by_end: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for order, (word, kind) in enumerate(words):
            self._by_start[word[:2]].append((word, kind, order))
            self._by_end[word[-2:]].append((word, kind, order))

    def nearest(self, word: str, kind: str) -> str | None:
        """The literal that `word` most likely comes from, or went to: the cheapest change, the latest among equals."""
        near = self._by_start.get(word[:2], [])[-MAX_CANDIDATES:] + self._by_end.get(word[-2:], [])[-MAX_CANDIDATES:]
        best: tuple[float, int, str] | None = None
        for other, other_kind, order in near:
            if not (related(other_kind, word, kind) or related(kind, other, other_kind)):
                continue
            price = cost(other, word)
            if price is not None and other_kind != kind:
                price += _OTHER_KIND
            if price is not None and (best is None or (price, -order) < best[:2]):
                best = (price, -order, other)
        return best[2] if best else None
