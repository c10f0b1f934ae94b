"""Checking an answer: every drawn row of the ledger is the committed one, and follows from the tensors answered."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suite.bundle.evidence import Counted, recompute, rows_told
from suite.bundle.read import Bundle
from suite.bundle.verify import verify_bundle
from suite.capture.rows import RowSource
from suite.capture.store import Capture, StoredRows, open_capture
from suite.capture.tensors import TensorFile, write_tensors
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.evidence.answer import open_answer, path_of
from suite.evidence.challenge import Challenge
from suite.evidence.commitment import Commitment, SideFacts, evidence_names, hash_rows, leaf_bytes, ledger_rows
from suite.evidence.merkle import root_from_path
from suite.evidence.pack import SIDES
from suite.evidence.rows import replay_anywhere
from suite.files import canonical_json, sha256_file, write_atomic
from suite.manifest.lock import Lock
from suite.observer import Observer, SilentObserver
from suite.reference.check import check_heads
from suite.reference.store import head_file
from suite.score.ledger import Ledger, read_ledger

_CHUNK_ROWS = 256
_LOCKS = {"reference": "reference-lock.json", "candidate": "lock.json"}

Replay = Callable[[Capture, Lock, Path], RowSource]
"""Rows of a `hidden` capture, given the lock of its stack and a folder of heads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A challenge that was met."""

    rows: int
    """Of the ledger."""
    drawn: int
    rows_told: str
    """How many of both sides' rows were replayed bit for bit, and how many near."""


def check_answer(
    bundle: Bundle,
    commitment: Commitment,
    challenge: Challenge,
    answer: Path,
    *,
    heads: Sequence[Path] = (),
    replay: Replay | None = None,
    observer: Observer | None = None,
) -> Answered:
    """Check an answer to a challenge that this side made, after the commitment was published.

    Args:
        bundle: As published; verified here without evidence.
        commitment: As published.
        challenge: This side's own.
        answer: The submitter's file; treated as hostile.
        heads: Folders in which head files may lie, by hash.
        replay: By default torch where there is an interpreter that has it, else NumPy.
        observer: Told of progress.

    Raises:
        InvalidInput: the files do not belong together.
        MissingPrerequisite: a head is not at hand.
        VerificationFailed: the bundle does not verify, or the first drawn row that is not the committed one or does not
            follow from the tensors.
    """
    observer = observer or SilentObserver()
    verify_bundle(bundle.folder).require_passed()
    ledger = read_ledger(bundle.folder / "ledger.parquet")
    _require_commitment(commitment, bundle, ledger)
    tensors = open_answer(answer, challenge, commitment)
    _check_leaves(tensors, commitment, ledger, where=str(answer))
    indices = np.array(challenge.indices, dtype=np.int64)
    drawn = Ledger(facts=ledger.facts, columns={name: values[indices] for name, values in ledger.columns.items()})
    with tempfile.TemporaryDirectory(prefix="suite-answer-") as temporary:
        counted = []
        for side in SIDES:
            capture = _capture_of(Path(temporary) / side, side, tensors, commitment, bundle, drawn)
            counted.append(Counted(_rows(capture, bundle.lock(_LOCKS[side]), heads, replay or _replay)))
        observer.phase("recompute drawn rows", total=len(indices), unit="probes")
        recompute(drawn, counted[0], counted[1], ranges=bundle.lock().capture.ranges, observer=observer)
    return Answered(rows=ledger.num_rows, drawn=len(indices), rows_told=rows_told(*counted))


def _replay(capture: Capture, lock: Lock, heads: Path) -> RowSource:
    return replay_anywhere(capture, lock, heads=heads)


def _require_commitment(commitment: Commitment, bundle: Bundle, ledger: Ledger) -> None:
    if (commitment.bundle_id, commitment.record_sha256) != (bundle.bundle_id, bundle.record.record_sha256):
        raise InvalidInput(
            f"a commitment to {commitment.bundle_id}, record {commitment.record_sha256[:12]}",
            where=bundle.bundle_id,
            hint="give the bundle that was committed to",
        )
    claims: list[tuple[str, object, object]] = [("leaves", commitment.leaves, ledger.num_rows)]
    for side in SIDES:
        facts, evidence = getattr(commitment, side), getattr(bundle.record.evidence, side)
        claims.append((f"{side}.vocab_size", facts.vocab_size, ledger.facts.vocab_size))
        for key in ("capture_digest", "index_sha256", "codec", "dtype"):
            claims.append((f"{side}.{key}", getattr(facts, key), getattr(evidence, key)))
    for key, claimed, found in claims:
        if claimed != found:
            raise VerificationFailed(
                f"{key}: the commitment says {claimed}, the bundle {found}", where=commitment.bundle_id
            )


def _check_leaves(tensors: TensorFile, commitment: Commitment, ledger: Ledger, *, where: str) -> None:
    """Every ledger row with the answered tensors must be the committed leaf."""
    leaves, paths = tensors.read("leaves"), tensors.read("paths")
    for start in range(0, len(leaves), _CHUNK_ROWS):
        part = slice(start, min(start + _CHUNK_ROWS, len(leaves)))
        hashes = [_hashes(tensors, side, getattr(commitment, side), part) for side in SIDES]
        rows = ledger_rows(ledger, leaves[part])
        for at, (row, ours, theirs) in enumerate(zip(rows, *hashes, strict=True), start):
            leaf = int(leaves[at])
            path = path_of(paths, at, leaf=leaf, leaves=commitment.leaves)
            found = root_from_path(leaf_bytes(row, ours, theirs), leaf, commitment.leaves, path)
            if found.hex() != commitment.tree:
                raise VerificationFailed(
                    f"position {row['position']}: the ledger's row with the answered tensors is not the committed leaf",
                    where=where,
                )


def _hashes(tensors: TensorFile, side: str, facts: SideFacts, part: slice) -> list[bytes]:
    return hash_rows([tensors.read(f"{side}.{name}", part.start, part.stop) for name in evidence_names(facts.codec)])


def _capture_of(
    folder: Path, side: str, tensors: TensorFile, commitment: Commitment, bundle: Bundle, drawn: Ledger
) -> Capture:
    """The drawn rows as a capture of their own, whose rows are read or replayed like any other's."""
    facts: SideFacts = getattr(commitment, side)
    hashes = drawn.columns["ref_row_sha256" if side == "reference" else "cand_row_sha256"]
    positions, targets = drawn.columns["position"].astype(np.int64), drawn.columns["target_id"].astype(np.int64)
    chunks: list[dict[str, Any]] = []
    for number, start in enumerate(range(0, len(positions), _CHUNK_ROWS)):
        stop = min(start + _CHUNK_ROWS, len(positions))
        path = folder / f"chunk-{number:05d}.safetensors"
        content = {
            "positions": positions[start:stop],
            "target_ids": targets[start:stop],
            "row_sha256": hashes[start:stop],
            **{name: tensors.read(f"{side}.{name}", start, stop) for name in evidence_names(facts.codec)},
        }
        write_tensors(path, content)
        chunks.append(
            {
                "file": path.name,
                "sha256": sha256_file(path),
                "size_bytes": path.stat().st_size,
                "num_rows": stop - start,
                "first_position": int(positions[start]),
                "last_position": int(positions[stop - 1]),
            }
        )
    evidence = getattr(bundle.record.evidence, side)
    ours = side == "candidate"
    index = {
        "schema_version": 1,
        "lock_digest": bundle.record.lock_digest if ours else bundle.record.reference_lock_digest,
        "capture_digest": facts.capture_digest,
        "start": evidence.start,
        "path": evidence.path,
        "codec": facts.codec,
        "dtype": facts.dtype,
        "num_rows": len(positions),
        "row_width": facts.row_width,
        "vocab_size": facts.vocab_size,
        "tokenizer_size": None,
        "rows_per_gemm": facts.rows_per_gemm,
        "tokens_sha256": drawn.facts.tokens_sha256,
        "num_tokens": drawn.facts.num_tokens,
        "steps": [],
        "chunks": chunks,
        "head": None if facts.head is None else facts.head.model_dump(mode="json"),
        "replay_probe": None,
        "non_finite_rows": 0,
        "sanity": {"positions": 0, "mean_nll": None},
        "engine": {"vllm": "", "torch": "", "model_runner": ""},
        "receipt_sha256": evidence.receipt_sha256,
        "timings": {},
    }
    write_atomic(folder / "index.json", canonical_json(index))
    return open_capture(folder)


def _rows(capture: Capture, lock: Lock, heads: Sequence[Path], replay: Replay) -> RowSource:
    if capture.index.codec == "logits":
        return StoredRows(capture=capture)
    assert capture.index.head is not None
    names = capture.index.head.sha256s
    for folder in heads:
        if all(head_file(folder, name).is_file() for name in names):
            # An interpreter with torch hashes the files, and reads their metadata as they are.
            check_heads(capture.index, partial(head_file, folder))
            return replay(capture, lock, folder.resolve())
    raise MissingPrerequisite(
        f"the head {names[0][:12]} is not at hand" + (f", nor its {len(names)} shards" if len(names) > 1 else ""),
        hint="get its file from the submitter, or pull a reference pack that has it, and give its folder with --heads",
    )
