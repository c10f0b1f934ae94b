"""A commitment: one hash, published before anything is drawn, to a bundle's ledger and the evidence row of each probe.

Leaf i is the canonical JSON of ledger row i with the SHA-256 of what either capture stores of it. What is needed to
read evidence rows (codec, dtype, widths, heads by hash) stands beside the tree's root, and `root` is over all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.bundle.read import Bundle
from suite.bundle.schema import BundleId
from suite.capture.index import HeadRecord, RowDtype, Sha256
from suite.capture.store import Capture
from suite.errors import VerificationFailed
from suite.evidence.merkle import MerkleTree
from suite.files import canonical_json, pretty_json, sha256_bytes
from suite.observer import Observer, SilentObserver
from suite.records import parse_strictly
from suite.score.ledger import COLUMNS, HASH_COLUMNS, Ledger

COMMITMENT_NAME = "commitment.json"
SCHEMA_VERSION = 1
MOST_LEAVES = 1 << 24

_BLOCK_ROWS = 256


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class SideFacts(_Strict):
    """How one side's evidence rows are read."""

    capture_digest: Sha256
    index_sha256: Sha256
    codec: Literal["logits", "hidden"]
    dtype: RowDtype
    row_width: Annotated[int, Field(gt=0, le=1 << 24)]
    vocab_size: Annotated[int, Field(gt=1, le=1 << 24)]
    rows_per_gemm: Annotated[int, Field(ge=0, le=1 << 20)]
    head: HeadRecord | None
    """Of codec `hidden`: the head's files by hash."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if (self.head is None) != (self.codec == "logits"):
            raise ValueError("a head belongs to codec `hidden`, and to no other")
        if self.codec == "logits" and self.row_width != self.vocab_size:
            raise ValueError("row_width differs from vocab_size in a `logits` capture")
        if self.codec == "hidden" and self.rows_per_gemm < 1:
            raise ValueError("rows_per_gemm is 0 in a `hidden` capture")
        return self


class Commitment(_Strict):
    """`commitment.json`."""

    schema_version: Literal[1]
    bundle_id: BundleId
    record_sha256: Sha256
    """Of the bundle, whose ledger the leaves hold."""
    leaves: Annotated[int, Field(gt=0, le=MOST_LEAVES)]
    tree: Sha256
    """Root of the Merkle tree."""
    reference: SideFacts
    candidate: SideFacts
    root: Sha256
    """SHA-256 of the canonical JSON of all the above."""

    @model_validator(mode="after")
    def _sealed(self) -> Self:
        if self.root != _root_of(self.model_dump(mode="json", exclude={"root"})):
            raise ValueError("root does not match the commitment")
        return self

    def to_bytes(self) -> bytes:
        """The content of `commitment.json`."""
        return pretty_json(self.model_dump(mode="json"))


def parse_commitment(data: bytes, *, where: str) -> Commitment:
    """Read a `commitment.json`, strictly.

    Raises:
        InvalidInput: no commitment, of a newer version, or its root is not over it.
    """
    return parse_strictly(Commitment, data, where=where, newest=SCHEMA_VERSION, what="not a commitment: ")


def commit(
    bundle: Bundle, ledger: Ledger, reference: Capture, candidate: Capture, *, observer: Observer | None = None
) -> tuple[Commitment, MerkleTree]:
    """Commit to the ledger of `bundle` and both captures' rows.

    Args:
        bundle: Whose record the captures and the ledger are of.
        ledger: Its ledger.
        reference: The capture that the record names.
        candidate: Likewise.
        observer: Told of progress, in rows of either side.

    Raises:
        VerificationFailed: a capture is damaged, or is not of this ledger.
    """
    observer = observer or SilentObserver()
    sides = {"reference": reference, "candidate": candidate}
    hashes = {name: _evidence_hashes(capture, observer) for name, capture in sides.items()}
    for name, found in hashes.items():
        if len(found) != ledger.num_rows:
            raise VerificationFailed(f"the {name}'s capture holds {len(found)} rows, the ledger {ledger.num_rows}")
    tree = MerkleTree(
        leaf_bytes(row, ours.tobytes(), theirs.tobytes())
        for row, ours, theirs in zip(ledger_rows(ledger), hashes["reference"], hashes["candidate"], strict=True)
    )
    fields: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "bundle_id": bundle.bundle_id,
        "record_sha256": bundle.record.record_sha256,
        "leaves": len(tree),
        "tree": tree.root.hex(),
        **{name: _facts(capture) for name, capture in sides.items()},
    }
    data = canonical_json({**fields, "root": _root_of(fields)})
    return parse_commitment(data, where=COMMITMENT_NAME), tree


def ledger_rows(ledger: Ledger, indices: NDArray[np.int64] | slice = slice(None)) -> Iterator[dict[str, Any]]:
    """Rows of a ledger as JSON values; hashes as hexadecimal digits."""
    columns = [
        [value.tobytes().hex() for value in ledger.columns[name][indices]]
        if name in HASH_COLUMNS
        else ledger.columns[name][indices].tolist()
        for name in COLUMNS
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(COLUMNS, values, strict=True))


def leaf_bytes(row: Mapping[str, Any], reference: bytes, candidate: bytes) -> bytes:
    """A leaf: canonical JSON of a ledger row and of both evidence rows' SHA-256 (32 bytes each)."""
    return canonical_json({"row": row, "reference": reference.hex(), "candidate": candidate.hex()})


def evidence_names(codec: str) -> tuple[str, ...]:
    """Tensors of a capture whose rows, one after the other, are the evidence of a probe."""
    return ("rows",) if codec == "logits" else ("rows", "top_ids", "top_logits", "logsumexp")


def hash_rows(tensors: list[NDArray[Any]]) -> list[bytes]:
    """SHA-256 of each probe's evidence: the little-endian bytes of its row in every tensor, in order."""
    little = [np.ascontiguousarray(t, dtype=t.dtype.newbyteorder("<")) for t in tensors]
    return [hashlib.sha256(b"".join(part.tobytes() for part in parts)).digest() for parts in zip(*little, strict=True)]


def _evidence_hashes(capture: Capture, observer: Observer) -> NDArray[np.uint8]:
    """[n, 32], SHA-256 of each probe's evidence."""
    observer.phase("hash evidence", total=capture.index.num_rows, unit="rows")
    found: list[bytes] = []
    for entry in capture.index.chunks:
        chunk = capture.open_chunk(entry)
        for start in range(0, entry.num_rows, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, entry.num_rows)
            found += hash_rows([chunk.read(name, start, stop) for name in evidence_names(capture.index.codec)])
            observer.advance(stop - start)
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, 32)


def _facts(capture: Capture) -> dict[str, Any]:
    index = capture.index
    head = index.head if index.codec == "hidden" else None
    return {
        "capture_digest": index.capture_digest,
        "index_sha256": capture.index_sha256,
        "codec": index.codec,
        "dtype": index.dtype,
        "row_width": index.row_width,
        "vocab_size": index.vocab_size,
        "rows_per_gemm": index.rows_per_gemm,
        "head": None if head is None else head.model_dump(mode="json"),
    }


def _root_of(fields: Mapping[str, Any]) -> str:
    return sha256_bytes(canonical_json(fields))
