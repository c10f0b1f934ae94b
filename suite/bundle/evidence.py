"""The strongest check: the ledger computed again from the captures that a bundle names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite.bundle.schema import Evidence, EvidencePair
from suite.capture.index import INDEX_NAME, CaptureIndex
from suite.capture.rows import RowBlock, RowFactory, RowSource, open_rows
from suite.capture.store import Capture, open_capture
from suite.errors import MissingPrerequisite, VerificationFailed
from suite.files import sha256_bytes
from suite.observer import Observer
from suite.score.check import REPLAYED_ABSOLUTE, check_same_scores
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


def find_evidence(stores: Sequence[Path], evidence: Evidence) -> Capture:
    """The same from the first store that holds it.

    Raises:
        MissingPrerequisite: none does.
        VerificationFailed: one does, and a chunk is missing or truncated.
    """
    missing = MissingPrerequisite("no capture store given")
    for store in stores:
        try:
            return find_capture(store, evidence)
        except MissingPrerequisite as error:
            missing = error
    raise missing


def check_evidence(
    evidence: EvidencePair,
    ledger: Ledger,
    *,
    ranges: Sequence[Sequence[int]],
    captures: Sequence[Path],
    replay: RowFactory | None,
    observer: Observer,
) -> str:
    """Compute every row of `ledger` again from both captures; returns one line on what was done.

    Turn and span kind come from the workload, not from rows, and are taken from the ledger.

    Args:
        evidence: Which captures.
        ledger: What is claimed.
        ranges: Capture ranges of the lock.
        captures: Capture stores, the first that holds a capture giving it.
        replay: Gives the rows of `hidden` captures.
        observer: Told of progress, in probes.

    Raises:
        MissingPrerequisite: a capture, or what is needed to read it, is not at hand.
        VerificationFailed: a capture is damaged, or the first position and column that do not follow from it.
    """
    sides = [find_evidence(captures, side) for side in (evidence.reference, evidence.candidate)]
    rows = [Counted(open_rows(capture, replay=replay)) for capture in sides]
    for capture in {side.folder: side for side in sides}.values():
        capture.verify(observer=observer)
    observer.phase("recompute ledger", total=ledger.num_rows, unit="probes")
    done = recompute(ledger, rows[0], rows[1], ranges=ranges, observer=observer)
    if done != ledger.num_rows:
        raise VerificationFailed(f"the evidence holds {done} probes, the ledger {ledger.num_rows}")
    return (
        f"all {done:,} probes computed again from both captures (turn and span labels are not in them); "
        f"{rows_told(*rows)}"
    )


def recompute(
    ledger: Ledger, reference: RowSource, candidate: RowSource, *, ranges: Sequence[Sequence[int]], observer: Observer
) -> int:
    """Score both rows of consecutive probes of `ledger` again, from its first on; returns how many there were.

    Raises:
        InvalidInput: the two sources are not of the same probes.
        VerificationFailed: the first position and column that do not follow from the rows.
    """
    done = 0
    span_ranges = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    for columns in score_blocks(reference, candidate, labels=_labels(ledger)):
        count = len(columns["position"])
        claimed = {name: values[done : done + count] for name, values in ledger.columns.items()}
        if len(claimed["position"]) < count:
            raise VerificationFailed(f"the evidence holds more probes than the ledger, {ledger.num_rows}")
        columns["range_index"] = range_indices(columns["position"] + 1, span_ranges)
        check_same_scores(claimed, _without_labels(columns))
        done += count
        observer.advance(count)
    return done


@dataclass(slots=True)
class Counted:
    """A source that counts, in its last pass, how many rows had the captured bits and how many were only near."""

    source: RowSource
    identical: int = 0
    near: int = 0
    overruled: int = 0
    """Of the near rows those whose best id is the captured one and was another in the replay."""

    @property
    def index(self) -> CaptureIndex:
        """The capture's index."""
        return self.source.index

    def blocks(self) -> Iterator[RowBlock]:
        """As the source's."""
        self.identical = self.near = self.overruled = 0
        for block in self.source.blocks():
            near = 0 if block.replayed is None else int(block.replayed.sum())
            self.identical += len(block.positions) - near
            self.near += near
            self.overruled += 0 if block.overruled is None else int(block.overruled.sum())
            yield block


def rows_told(reference: Counted, candidate: Counted) -> str:
    """What the rows of both sides were, for a person."""
    sides = (("reference", reference), ("candidate", candidate))
    if not any(side.near for _, side in sides):
        return "every row bit for bit"
    counts = ", ".join(f"{name} {side.identical:,} rows bit for bit and {side.near:,} near" for name, side in sides)
    overruled = sum(side.overruled for _, side in sides)
    return (
        f"{counts} (of near rows the stored best logits decide, ids exact, floats within {REPLAYED_ABSOLUTE}; "
        f"{overruled:,} of them had another best id when replayed)"
    )


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
