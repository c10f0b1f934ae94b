"""The strongest check: the ledger computed again from the captures that a bundle names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from suite.bundle.schema import Evidence, EvidencePair
from suite.capture.rows import RowFactory, open_rows
from suite.capture.store import Capture, open_capture
from suite.errors import MissingPrerequisite, VerificationFailed
from suite.observer import Observer
from suite.score.check import check_same_scores
from suite.score.interface import Columns
from suite.score.labels import Labels, range_indices
from suite.score.ledger import Ledger
from suite.score.scorer import score_blocks


def capture_folder(captures: Path, evidence: Evidence) -> Path:
    """Where a capture store keeps the capture that `evidence` names."""
    return captures / evidence.capture_digest / f"start-{evidence.start}"


def check_evidence(
    evidence: EvidencePair,
    ledger: Ledger,
    *,
    ranges: Sequence[Sequence[int]],
    captures: Path | None,
    replay: RowFactory | None,
    observer: Observer,
) -> str:
    """Compute every row of `ledger` again from both captures; returns one line on what was done.

    Turn and span kind come from the workload, not from rows, and are taken from the ledger.

    Args:
        evidence: Which captures.
        ledger: What is claimed.
        ranges: Capture ranges of the lock.
        captures: A capture store.
        replay: Gives the rows of `hidden` captures.
        observer: Told of progress, in probes.

    Raises:
        MissingPrerequisite: a capture, or what is needed to read it, is not at hand.
        VerificationFailed: a capture is damaged, or the first position and column that do not follow from it.
    """
    if captures is None:
        raise MissingPrerequisite("no capture store given")
    sides = [_open(captures, side) for side in (evidence.reference, evidence.candidate)]
    rows = [open_rows(capture, replay=replay) for capture in sides]
    for capture in {side.folder: side for side in sides}.values():
        capture.verify(observer=observer)
    observer.phase("recompute ledger", total=ledger.num_rows, unit="probes")
    done = 0
    span_ranges = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    for columns in score_blocks(*rows, labels=_labels(ledger)):
        count = len(columns["position"])
        claimed = {name: values[done : done + count] for name, values in ledger.columns.items()}
        columns["range_index"] = range_indices(columns["position"] + 1, span_ranges)
        check_same_scores(claimed, _without_labels(columns))
        done += count
        observer.advance(count)
    if done != ledger.num_rows:
        raise VerificationFailed(f"the evidence holds {done} probes, the ledger {ledger.num_rows}")
    return f"all {done:,} probes computed again from both captures (turn and span labels are not in them)"


def _open(captures: Path, evidence: Evidence) -> Capture:
    folder = capture_folder(captures, evidence)
    capture = open_capture(folder)
    if capture.index_sha256 != evidence.index_sha256:
        raise MissingPrerequisite("another capture of the same lock", where=f"{folder.parent.name[:12]}/{folder.name}")
    return capture


def _labels(ledger: Ledger) -> Labels:
    """Labels that let the ledger's own tokens through; tokens no probe touches stay -1."""
    columns, total = ledger.columns, ledger.facts.num_tokens
    tokens = np.full(total, -1, dtype=np.int64)
    tokens[columns["position"]] = columns["token_id"]
    tokens[columns["position"] + 1] = columns["target_id"]
    return Labels(
        token_ids=tokens,
        turns=np.full(total, -1, dtype=np.int32),
        kinds=np.full(total, "", dtype="<U1"),
        ranges=np.empty((0, 2), dtype=np.int64),
    )


def _without_labels(columns: Columns) -> Columns:
    return {name: values for name, values in columns.items() if name not in ("turn", "span_kind")}
