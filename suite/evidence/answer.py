"""The answer to a challenge: the drawn rows of both captures with their Merkle paths, in one safetensors file.

Its layout follows from commitment and challenge alone, so that an answer of any other size is refused unread.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import TOP_IDS
from suite.capture.store import Capture
from suite.capture.tensors import TensorFile, open_tensors, tensor_bytes, write_tensors
from suite.errors import InvalidInput, VerificationFailed
from suite.evidence.challenge import Challenge
from suite.evidence.commitment import Commitment, SideFacts, evidence_names
from suite.evidence.merkle import HASH_BYTES, MerkleTree, path_length
from suite.evidence.pack import SIDES

ANSWER_LIMIT_BYTES = 2 << 30
_HEADER_LIMIT_BYTES = 1 << 16
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}

Layout = dict[str, tuple[str, tuple[int, ...]]]
"""Tensor to its dtype, as safetensors names it, and shape."""


def answer_layout(commitment: Commitment, draw: int) -> Layout:
    """The tensors of an answer: `leaves`, `paths`, and per side what its capture holds of a row."""
    depth = (commitment.leaves - 1).bit_length()
    layout: Layout = {"leaves": ("I64", (draw,)), "paths": ("U8", (draw, depth, HASH_BYTES))}
    for side in SIDES:
        facts: SideFacts = getattr(commitment, side)
        dtype, top = _DTYPES[facts.dtype], min(TOP_IDS, facts.vocab_size)
        shapes: Layout = {
            "rows": (dtype, (draw, facts.row_width)),
            "top_ids": ("I32", (draw, top)),
            "top_logits": (dtype, (draw, top)),
            "logsumexp": ("F64", (draw,)),
        }
        layout |= {f"{side}.{name}": shapes[name] for name in evidence_names(facts.codec)}
    return layout


def answer_bytes(commitment: Commitment, draw: int) -> int:
    """Largest size of an answer in bytes.

    Raises:
        InvalidInput: it would be above 2 GiB.
    """
    size = sum(tensor_bytes(dtype, shape) for dtype, shape in answer_layout(commitment, draw).values())
    if size > ANSWER_LIMIT_BYTES:
        fits = draw * ANSWER_LIMIT_BYTES // size
        raise InvalidInput(
            f"an answer with {draw:,} rows has {size:,} bytes; at most {ANSWER_LIMIT_BYTES:,} are read",
            hint=f"draw at most {fits:,} rows",
        )
    return size + _HEADER_LIMIT_BYTES


def write_answer(
    out: Path, challenge: Challenge, commitment: Commitment, tree: MerkleTree, reference: Capture, candidate: Capture
) -> int:
    """Write the answer atomically; returns its size in bytes.

    Args:
        out: The file.
        challenge: What is asked.
        commitment: As `commit` gives it of the same captures.
        tree: Likewise.
        reference: Its capture.
        candidate: Likewise.

    Raises:
        InvalidInput: the challenge is to another commitment, or the answer would be too large.
        VerificationFailed: a capture is damaged.
        MissingPrerequisite: the disk is full.
    """
    require_asked(challenge, commitment)
    answer_bytes(commitment, challenge.draw)
    leaves = np.array(challenge.indices, dtype=np.int64)
    depth = (commitment.leaves - 1).bit_length()
    paths = np.zeros((len(leaves), depth, HASH_BYTES), dtype=np.uint8)
    for row, leaf in enumerate(leaves.tolist()):
        path = b"".join(tree.path(leaf))
        paths[row, : len(path) // HASH_BYTES] = np.frombuffer(path, dtype=np.uint8).reshape(-1, HASH_BYTES)
    tensors: dict[str, NDArray[Any]] = {"leaves": leaves, "paths": paths}
    for side, capture in zip(SIDES, (reference, candidate), strict=True):
        tensors |= {f"{side}.{name}": values for name, values in _rows_at(capture, leaves).items()}
    write_tensors(out, tensors)
    return out.stat().st_size


def open_answer(path: Path, challenge: Challenge, commitment: Commitment) -> TensorFile:
    """An answer whose size, layout and leaves are those that were asked for; nothing else of it is trusted yet.

    Raises:
        InvalidInput: the challenge is to another commitment, or there is no such file.
        VerificationFailed: not a regular file, of another size or layout, or other leaves than the drawn ones.
    """
    require_asked(challenge, commitment)
    limit, where = answer_bytes(commitment, challenge.draw), str(path)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise VerificationFailed("not a regular file", where=where)
    if not path.exists():
        raise InvalidInput("no such file", where=where, hint="suite evidence answer")
    if path.stat().st_size > limit:
        raise VerificationFailed(f"has {path.stat().st_size:,} bytes; an answer has at most {limit:,}", where=where)
    try:
        tensors = open_tensors(path)
    except VerificationFailed as error:
        raise VerificationFailed(error.message, where=where, hint="get the answer again") from error
    found = {name: (entry.dtype, entry.shape) for name, entry in tensors.tensors.items()}
    wanted = answer_layout(commitment, challenge.draw)
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise VerificationFailed(
                f"the tensor {name!a} is {found.get(name)}, asked was for {wanted.get(name)}", where=where
            )
    if not np.array_equal(tensors.read("leaves"), challenge.indices):
        raise VerificationFailed("it opens other leaves than those that were drawn", where=where)
    return tensors


def path_of(paths: NDArray[np.uint8], row: int, *, leaf: int, leaves: int) -> tuple[bytes, ...]:
    """The Merkle path in row `row` of an answer's `paths`; what lies beyond its length is not looked at."""
    return tuple(sibling.tobytes() for sibling in paths[row, : path_length(leaf, leaves)])


def require_asked(challenge: Challenge, commitment: Commitment) -> None:
    """Refuse a challenge to another commitment.

    Raises:
        InvalidInput: root or number of leaves differ.
    """
    if (challenge.root, challenge.leaves) != (commitment.root, commitment.leaves):
        raise InvalidInput(
            f"the challenge is to root {challenge.root[:12]}, the commitment's is {commitment.root[:12]}",
            hint="give the files that belong together",
        )


def _rows_at(capture: Capture, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """What a capture holds of the probes `indices` (sorted)."""
    names = evidence_names(capture.index.codec)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    first = 0
    for entry in capture.index.chunks:
        here = indices[(indices >= first) & (indices < first + entry.num_rows)] - first
        chunk = capture.open_chunk(entry) if len(here) else None
        for row, name in _pairs(here, names):
            assert chunk is not None
            parts[name].append(chunk.read(name, row, row + 1))
        first += entry.num_rows
    return {name: np.concatenate(values) for name, values in parts.items()}


def _pairs(rows: NDArray[np.int64], names: tuple[str, ...]) -> Iterable[tuple[int, str]]:
    return chain.from_iterable(((row, name) for name in names) for row in rows.tolist())
