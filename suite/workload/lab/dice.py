"""Seeded choices that come out the same on every platform and Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Dice:
    """Choices built on `random.Random.random()` alone: the one method whose sequence Python promises to keep."""

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.sha256("/".join(str(part) for part in key).encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big"))  # noqa: S311

    def below(self, limit: int) -> int:
        """An integer in `[0, limit)`."""
        return int(self._random.random() * limit)

    def between(self, low: int, high: int) -> int:
        """An integer in `[low, high]`."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases."""
        return self.below(100) < percent

    def pick(self, items: Sequence[_T]) -> _T:
        """One item."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        """All items in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]

    def sample(self, items: Sequence[_T], count: int) -> list[_T]:
        """`count` different items."""
        return self.shuffled(items)[:count]

    def hexadecimal(self, digits: int) -> str:
        """Lower-case hexadecimal text."""
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(digits))
