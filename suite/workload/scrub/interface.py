"""What finds private values: a detector has a kind and yields character ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

Shape = Literal["text", "hex", "ipv4", "ipv6", "mac", "name"]
"""How a value is replaced. `text`: letters by letters, digits by digits. `hex`: hex digits by hex digits. `ipv4`,
`ipv6`: as an address of the same class and, for equal prefixes, with equal prefixes. `mac`: with the same digits in
every notation. `name`: a word that can be spoken."""


class Detector(Protocol):
    """Finds values of one kind."""

    @property
    def kind(self) -> str:
        """What it finds, for people: `email address`."""

    @property
    def shape(self) -> Shape:
        """How they are replaced."""

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Half-open character ranges of what is to be replaced, fixed prefixes left out."""


Accept = Callable[[re.Match[str]], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """A detector by regular expression: the groups named `v…` are the values, else the whole match.

    Expressions must not take time that grows faster than the text: they begin with fixed letters or repeat a bounded
    number of times.
    """

    kind: str
    expression: re.Pattern[str]
    shape: Shape = "text"
    accept: Accept | None = None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Detector.find`."""
        names = [name for name in self.expression.groupindex if name.startswith("v")]
        for match in self.expression.finditer(text):
            if self.accept is not None and not self.accept(match):
                continue
            for group in names or (0,):
                start, end = match.span(group)
                if start < end:
                    yield start, end


def pattern(kind: str, expression: str, shape: Shape = "text", accept: Accept | None = None) -> Pattern:
    """A `Pattern` from text."""
    return Pattern(kind=kind, expression=re.compile(expression), shape=shape, accept=accept)
