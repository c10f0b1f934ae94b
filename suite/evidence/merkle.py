"""A Merkle tree over byte strings: one hash stands for all leaves, and a short path shows that a leaf is one of them.

Leaves and nodes are hashed with different prefixes, so that no node can be passed off as a leaf; an odd last node moves
up unchanged. Construction: RFC 6962, section 2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from suite.errors import InvalidInput, VerificationFailed

HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """SHA-256 of 0x00 and the leaf."""
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256 of 0x01 and both children."""
    return hashlib.sha256(b"\1" + left + right).digest()


class MerkleTree:
    """All levels of a tree in memory (64 bytes a leaf)."""

    def __init__(self, leaves: Iterable[bytes]) -> None:
        """Build it over the leaf hashes of `leaves`.

        Raises:
            InvalidInput: there is no leaf.
        """
        level = [leaf_hash(leaf) for leaf in leaves]
        if not level:
            raise InvalidInput("a tree over nothing")
        self._levels = [level]
        while len(level) > 1:
            pairs = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            level = pairs + level[len(level) - len(level) % 2 :]
            self._levels.append(level)

    @property
    def root(self) -> bytes:
        """The hash over all leaves."""
        return self._levels[-1][0]

    def __len__(self) -> int:
        """Number of leaves."""
        return len(self._levels[0])

    def path(self, index: int) -> tuple[bytes, ...]:
        """The siblings on the way from leaf `index` to the root, lowest first."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        found = []
        for level in self._levels[:-1]:
            if index ^ 1 < len(level):
                found.append(level[index ^ 1])
            index >>= 1
        return tuple(found)


def path_length(index: int, size: int) -> int:
    """Number of siblings on the way from leaf `index` of `size` leaves to the root."""
    count = 0
    while size > 1:
        count += index ^ 1 < size
        index, size = index >> 1, (size + 1) // 2
    return count


def root_from_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that a tree of `size` leaves has if `leaf` is its leaf `index` and `path` are the siblings.

    Raises:
        VerificationFailed: the path has not the length that index and size ask for.
    """
    if not 0 <= index < size or len(path) != path_length(index, size) or any(len(h) != HASH_BYTES for h in path):
        raise VerificationFailed(f"not a Merkle path of leaf {index} of {size}")
    found, siblings = leaf_hash(leaf), iter(path)
    while size > 1:
        if index ^ 1 < size:
            sibling = next(siblings)
            found = node_hash(sibling, found) if index & 1 else node_hash(found, sibling)
        index, size = index >> 1, (size + 1) // 2
    return found
