"""The strongest check: the ledger computed again from the captures that a bundle names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from suite.bundle.schema import Evidence, EvidencePair
from suite.capture.index import INDEX_NAME
from suite.capture.rows import RowFactory, open_rows
from suite.capture.store import Capture, open_capture
from suite.errors import MissingPrerequisite, VerificationFailed
from suite.files import sha256_bytes
from suite.observer import Observer
from suite.score.check import check_same_scores
from suite.score.interface import Columns
from suite.score.labels import Labels, range_indices
from suite.score.ledger import Ledger
from suite.score.scorer import score_blocks


def find_capture(captures: Path, evidence: Evidence) -> Capture:
    """The capture that `evidence` names, from a store: a start made here, or one that came with a reference pack.

    Raises:
        MissingPrerequisite: the store does not hold it.
        VerificationFailed: it does, and a chunk is missing or truncated.
    """
    folder = captures / evidence.capture_digest
    others = 0
    for path in sorted(folder.glob(f"*/{INDEX_NAME}")):
        if sha256_bytes(path.read_bytes()) == evidence.index_sha256:
            return open_capture(path.parent)
        others += 1
    what = "only other captures of the same lock" if others else "no capture of this lock"
    raise MissingPrerequisite(f"the store holds {what}", where=evidence.capture_digest[:12])


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
    sides = [find_capture(captures, side) for side in (evidence.reference, evidence.candidate)]
    rows = [open_rows(capture, replay=replay) for capture in sides]
    for capture in {side.folder: side for side in sides}.values():
        capture.verify(observer=observer)
    observer.phase("recompute ledger", total=ledger.num_rows, unit="probes")
    done = replayed = 0
    span_ranges = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    for columns in score_blocks(*rows, labels=_labels(ledger)):
        count = len(columns["position"])
        claimed = {name: values[done : done + count] for name, values in ledger.columns.items()}
        columns["range_index"] = range_indices(columns["position"] + 1, span_ranges)
        check_same_scores(claimed, _without_labels(columns))
        done += count
        replayed += int((claimed["replayed"] | columns["replayed"]).sum())
        observer.advance(count)
    if done != ledger.num_rows:
        raise VerificationFailed(f"the evidence holds {done} probes, the ledger {ledger.num_rows}")
    near = f"; {replayed:,} with a row replayed elsewhere: ids exact, floats near" if replayed else ""
    return f"all {done:,} probes computed again from both captures (turn and span labels are not in them{near})"


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
