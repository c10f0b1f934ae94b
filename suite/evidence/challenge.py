"""Which leaves of a commitment must be opened: drawn from a nonce that nobody could know when the root was published.

If the submitter could know the nonce, or draw it, a root whose sample misses every falsified row would be found by
trying: one in two needs two tries. So the checker makes it, once per root, after the root was published.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.capture.index import Sha256
from suite.errors import InvalidInput
from suite.evidence.commitment import MOST_LEAVES, Commitment
from suite.files import pretty_json
from suite.records import parse_strictly

CHALLENGE_NAME = "challenge.json"
SCHEMA_VERSION = 1
DRAW = 512
"""Rows drawn where nothing else is asked for: of 7,114 rows with 71 falsified ones, a sample of this size misses all in
0.5 % of the cases."""


class Challenge(BaseModel):
    """`challenge.json`: what the checker asks for."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1]
    root: Sha256
    """Of the commitment."""
    leaves: Annotated[int, Field(gt=0, le=MOST_LEAVES)]
    nonce: Sha256
    """32 random bytes as hexadecimal digits."""
    draw: Annotated[int, Field(gt=0, le=MOST_LEAVES)]

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        if self.draw > self.leaves:
            raise ValueError(f"draws {self.draw} of {self.leaves} leaves")
        return self

    @property
    def indices(self) -> tuple[int, ...]:
        """The drawn leaves, in order."""
        return tuple(sorted(draw_leaves(self.root, self.nonce, leaves=self.leaves, draw=self.draw)))

    def to_bytes(self) -> bytes:
        """The content of `challenge.json`."""
        return pretty_json(self.model_dump(mode="json"))


def make_challenge(commitment: Commitment, *, draw: int | None = None, nonce: bytes | None = None) -> Challenge:
    """Ask a commitment that has been published to be opened at random leaves.

    Args:
        commitment: As published.
        draw: How many leaves; by default 512, or all where there are fewer.
        nonce: 32 bytes; by default of the operating system's random source, and anything else is for tests.

    Raises:
        InvalidInput: more leaves are drawn than there are, or none.
    """
    count = min(DRAW, commitment.leaves) if draw is None else draw
    if not 0 < count <= commitment.leaves:
        raise InvalidInput(f"{count:,} of {commitment.leaves:,} rows cannot be drawn", hint="draw fewer, at least one")
    nonce = secrets.token_bytes(32) if nonce is None else nonce
    return Challenge(schema_version=1, root=commitment.root, leaves=commitment.leaves, nonce=nonce.hex(), draw=count)


def parse_challenge(data: bytes, *, where: str) -> Challenge:
    """Read a `challenge.json`, strictly.

    Raises:
        InvalidInput: no challenge, or of a newer version.
    """
    return parse_strictly(Challenge, data, where=where, newest=SCHEMA_VERSION, what="not a challenge: ")


def draw_leaves(root: str, nonce: str, *, leaves: int, draw: int) -> Iterator[int]:
    """`draw` different numbers below `leaves`, every set of them equally likely over nonces; in the order drawn.

    A Fisher-Yates shuffle, of which only the moved places are kept, over numbers from SHA-256(nonce, root, counter):
    the first 8 bytes, big-endian; those of the last, incomplete multiple of the range are passed over.

    Args:
        root: 64 hexadecimal digits.
        nonce: 64 hexadecimal digits.
        leaves: Of the tree.
        draw: How many.
    """
    numbers = _numbers(bytes.fromhex(nonce) + bytes.fromhex(root))
    moved: dict[int, int] = {}
    for last in islice(range(leaves - 1, -1, -1), draw):
        limit = (1 << 64) - (1 << 64) % (last + 1)
        place = next(number for number in numbers if number < limit) % (last + 1)
        found = moved.get(place, place)
        moved[place] = moved.pop(last, last)
        yield found


def _numbers(seed: bytes) -> Iterator[int]:
    start, counter = hashlib.sha256(seed), 0
    while True:
        digest = start.copy()
        digest.update(counter.to_bytes(8, "big"))
        yield int.from_bytes(digest.digest()[:8], "big")
        counter += 1
