"""Two captures in, one ledger out, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import CaptureIndex
from suite.capture.rows import RowBlock, RowSource, aligned
from suite.errors import InvalidInput
from suite.observer import Observer, SilentObserver
from suite.score.classes import flip_classes
from suite.score.comparable import require_comparable
from suite.score.interface import Columns, Kernel
from suite.score.labels import Labels
from suite.score.ledger import LedgerFacts, write_ledger
from suite.score.numba_kernel import default_kernel


class Indexed(Protocol):
    """What has the index of a capture: a `RowSource`, or the `Capture` itself."""

    @property
    def index(self) -> CaptureIndex:
        """The capture's index."""


def write_scores(
    path: Path,
    reference: RowSource,
    candidate: RowSource,
    *,
    labels: Labels,
    kernel: Kernel | None = None,
    observer: Observer | None = None,
) -> int:
    """Score every probe of two captures and write the ledger; returns the number of probes.

    Rows that are not finite stand in the ledger, marked: `summarise` then gives counts and no mean, and
    `require_valid` fails the run.

    Args:
        path: The ledger to write, atomically.
        reference: Rows of the reference.
        candidate: Rows of the candidate.
        labels: Of the workload that both captured.
        kernel: The fastest that is installed by default.
        observer: Told of progress, in probes.

    Raises:
        InvalidInput: the captures are not comparable, or are not of this workload.
        MissingPrerequisite: the disk is full.
    """
    facts = ledger_facts(reference, candidate)
    observer = observer or SilentObserver()
    kernel = kernel or default_kernel(observer)
    observer.phase("score", total=reference.index.num_rows, unit="probes")
    return write_ledger(path, _told(score_blocks(reference, candidate, labels=labels, kernel=kernel), observer), facts)


def ledger_facts(reference: Indexed, candidate: Indexed) -> LedgerFacts:
    """What holds for all rows of the ledger of two captures.

    Raises:
        InvalidInput: they are not comparable.
    """
    ours, theirs = reference.index, candidate.index
    require_comparable(ours, theirs)
    return LedgerFacts(
        tokens_sha256=ours.tokens_sha256,
        num_tokens=ours.num_tokens,
        vocab_size=ours.vocab_size,
        path=ours.path,
        ref_dtype=ours.dtype,
        cand_dtype=theirs.dtype,
    )


def score_blocks(
    reference: RowSource, candidate: RowSource, *, labels: Labels, kernel: Kernel | None = None
) -> Iterator[Columns]:
    """Ledger columns of consecutive probes, block by block; memory is that of two blocks of rows.

    Raises:
        InvalidInput: positions or recorded tokens differ between the captures or from the workload.
    """
    facts = ledger_facts(reference, candidate)
    require_workload(facts, labels)
    kernel = kernel or default_kernel()
    for ours, theirs in aligned(reference, candidate):
        yield ledger_columns(
            facts,
            labels,
            positions=ours.positions,
            target_ids=ours.target_ids,
            scores=_score(ours, theirs, kernel),
            replayed=_replayed(ours, theirs),
            row_sha256=(ours.row_sha256, theirs.row_sha256),
        )


def require_workload(facts: LedgerFacts, labels: Labels) -> None:
    """Refuse labels of a workload that has another length than the one captured.

    Raises:
        InvalidInput: the numbers of tokens differ.
    """
    if facts.num_tokens != len(labels.token_ids):
        raise InvalidInput(f"the captures are of {facts.num_tokens} tokens, the workload has {len(labels.token_ids)}")


def ledger_columns(
    facts: LedgerFacts,
    labels: Labels,
    *,
    positions: NDArray[np.int64],
    target_ids: NDArray[np.int64],
    scores: Columns,
    replayed: NDArray[np.bool_],
    row_sha256: tuple[NDArray[np.uint8], NDArray[np.uint8]],
) -> Columns:
    """The columns of a ledger for n consecutive probes, whatever scored them.

    Args:
        facts: Of the two captures.
        labels: Of their workload.
        positions: [n]
        target_ids: [n]
        scores: What a kernel returns.
        replayed: [n], see the ledger's column.
        row_sha256: [n, 32] of the reference's and the candidate's rows.

    Raises:
        InvalidInput: positions or recorded tokens are not those of the workload.
    """
    columns = labels.columns(positions, target_ids) | scores
    columns["path"] = np.full(len(positions), facts.path)
    columns["flip_class"] = flip_classes(columns["flip"], columns["tied"], columns["ref_p_ref_top1"])
    columns["replayed"] = replayed
    columns["ref_row_sha256"], columns["cand_row_sha256"] = row_sha256
    return columns


def _score(ours: RowBlock, theirs: RowBlock, kernel: Kernel) -> Columns:
    """Rows with equal hashes in equal dtypes are the same row, and are scored as such."""
    same = _same_rows(ours, theirs)
    if not same.any():
        return kernel.score_block(ours.rows, theirs.rows, ours.target_ids)
    # The candidate's: where the reference's was replayed elsewhere, this one has the bits of both.
    equal = kernel.score_block(theirs.rows[same], None, ours.target_ids[same])
    if same.all():
        return equal
    other = kernel.score_block(ours.rows[~same], theirs.rows[~same], ours.target_ids[~same])
    merged = {}
    for name, values in equal.items():
        merged[name] = np.empty(len(same), dtype=values.dtype)
        merged[name][same], merged[name][~same] = values, other[name]
    return merged


def _same_rows(ours: RowBlock, theirs: RowBlock) -> NDArray[np.bool_]:
    if ours.rows.dtype != theirs.rows.dtype:
        return np.zeros(len(ours.positions), dtype=np.bool_)
    same: NDArray[np.bool_] = (ours.row_sha256 == theirs.row_sha256).all(axis=1)
    return same


def _replayed(ours: RowBlock, theirs: RowBlock) -> NDArray[np.bool_]:
    """Where a score rests on a row that was recomputed and is not the captured one bit for bit."""
    marked = np.zeros(len(ours.positions), dtype=np.bool_)
    for side in (ours, theirs):
        if side.replayed is not None:
            marked |= side.replayed
    return marked & ~_same_rows(ours, theirs)


def _told(blocks: Iterator[Columns], observer: Observer) -> Iterator[Columns]:
    for block in blocks:
        yield block
        observer.advance(len(block["position"]))
