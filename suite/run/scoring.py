"""Scores of two `hidden` captures made where their rows are: in a stack, on its GPU, after its engine has stopped.

No row leaves the device and none is written: of 100,000 positions at a vocabulary of 248,320, which are 50 GB of logits
a side, the host receives 16 MB of columns. The rows are checked against what the captures stored of them (see
`suite.agent.scoring.pairs`); where one is not the captured one, nothing is written and the host's way is taken, which
hashes each row.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suite.capture.rows import RowFactory, open_rows
from suite.capture.store import Capture
from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.observer import Observer
from suite.reference.store import is_pulled
from suite.run.captures import Store, side_request, streamed_name
from suite.run.replayed import replay_in
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder, Runtime
from suite.score.interface import KERNEL_COLUMNS, Columns
from suite.score.labels import Labels
from suite.score.ledger import write_ledger
from suite.score.scorer import ledger_columns, ledger_facts, require_workload, write_scores
from suite.stack.engine_arguments import stack_environment

_BLOCK_ROWS = 16_384


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoringStack:
    """Where rows are recomputed and scored."""

    runtime: Runtime
    environment: Mapping[str, str]
    heads: Path
    """The store's output heads."""
    threads: int | None
    device: str
    """`cpu` or `cuda:0`."""


def score_pair(
    path: Path,
    reference: Capture,
    candidate: Capture,
    *,
    stack: Stack,
    store: Store,
    replay_reference: RowFactory | None,
    labels: Labels,
    observer: Observer,
) -> int:
    """Write the ledger of two captures: on the candidate's GPU where both hold hidden states, else on the host.

    Args:
        path: The ledger to write.
        reference: Of any stack.
        candidate: Of `stack`.
        stack: The candidate's.
        store: Holds the heads.
        replay_reference: How the host gets the reference's rows.
        labels: Of the workload.
        observer: Progress.

    Returns:
        The number of probes.
    """
    try:
        _require_same_probes(reference, candidate, labels)
        columns = _device_columns(reference, candidate, stack=stack, store=store, observer=observer)
        if columns is not None:
            blocks = _ledger_blocks(columns, reference, candidate, labels=labels)
            return write_ledger(path, blocks, ledger_facts(reference, candidate))
    except InvalidInput:
        raise
    except SuiteError as error:
        observer.note(f"not scored on the device, but here, row by row: {error.message}")
    return write_scores(
        path,
        open_rows(reference, replay=replay_reference),
        open_rows(candidate, replay=replay_in(stack, store)),
        labels=labels,
        observer=observer,
    )


def _device_columns(
    reference: Capture, candidate: Capture, *, stack: Stack, store: Store, observer: Observer
) -> Columns | None:
    """Columns that were made while the candidate's engine ran, or are made on its GPU now; None where neither is."""
    streamed = candidate.folder / streamed_name(reference)
    if streamed.is_file():
        return _read_columns(streamed, reference)
    if stack.lock.hardware.kind != "cuda" or not on_device(reference) or not on_device(candidate):
        return None
    scoring = ScoringStack(
        runtime=stack.runtime,
        environment=stack_environment(stack.lock),
        heads=store.heads,
        threads=stack.lock.hardware.threads,
        device="cuda:0",
    )
    return _scored(scoring, reference, candidate, observer)


def score_in_stack(
    stack: ScoringStack, reference: Capture, candidate: Capture, *, labels: Labels, observer: Observer
) -> Iterator[Columns]:
    """Ledger columns of all probes, scored inside a stack.

    Args:
        stack: Any that has torch; the captures' own, or one whose matrix products have the same bits.
        reference: Codec `hidden`.
        candidate: Codec `hidden`.
        labels: Of the workload.
        observer: Progress, in probes.

    Raises:
        InvalidInput: the captures are not comparable, or are not of this workload.
        RunFailed: the stack could not score.
        VerificationFailed: a recomputed row is not the one that was captured.
    """
    _require_same_probes(reference, candidate, labels)
    return _ledger_blocks(_scored(stack, reference, candidate, observer), reference, candidate, labels=labels)


def _require_same_probes(reference: Capture, candidate: Capture, labels: Labels) -> None:
    require_workload(ledger_facts(reference, candidate), labels)
    ours, theirs = reference.probes(), candidate.probes()
    for name in ("positions", "target_ids"):
        if not np.array_equal(getattr(ours, name), getattr(theirs, name)):
            raise InvalidInput(f"the two captures differ in {name}")


def _ledger_blocks(columns: Columns, reference: Capture, candidate: Capture, *, labels: Labels) -> Iterator[Columns]:
    facts = ledger_facts(reference, candidate)
    ours, theirs = reference.probes(), candidate.probes()
    for side, capture in (("reference", reference), ("candidate", candidate)):
        wrong = np.flatnonzero(~columns.pop(f"{side}_captured"))
        if wrong.size:
            raise VerificationFailed(
                f"{wrong.size} of {len(ours.positions)} recomputed rows are not those that were captured, "
                f"the first at position {ours.positions[wrong[0]]}",
                where=str(capture.folder),
                hint="score with the interpreter and processor that captured, or use `codec: logits`",
            )
    for start in range(0, len(ours.positions), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        yield ledger_columns(
            facts,
            labels,
            positions=ours.positions[part],
            target_ids=ours.target_ids[part],
            scores={name: values[part] for name, values in columns.items()},
            replayed=np.zeros(len(ours.positions[part]), dtype=np.bool_),
            row_sha256=(ours.row_sha256[part], theirs.row_sha256[part]),
        )


def on_device(capture: Capture) -> bool:
    """Rows of another machine's capture may differ a little; putting those right is the host's work."""
    return capture.index.codec == "hidden" and not is_pulled(capture)


def _scored(stack: ScoringStack, reference: Capture, candidate: Capture, observer: Observer) -> Columns:
    out = Path(tempfile.mkdtemp(prefix="suite-score-"))
    try:
        stack.runtime.call(_call(stack, out, reference, candidate), observer)
        return _read_columns(out / "columns.npz", reference)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _read_columns(path: Path, reference: Capture) -> Columns:
    expected = KERNEL_COLUMNS | {"reference_captured": np.bool_, "candidate_captured": np.bool_}
    with np.load(path, allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in expected}
    for name, kind in expected.items():
        assert columns[name].dtype == kind, name
        assert columns[name].shape == (reference.index.num_rows,), name
    return columns


def _call(stack: ScoringStack, out: Path, reference: Capture, candidate: Capture) -> AgentCall:
    def request(paths: Mapping[str, str]) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "out": paths["out"],
            "device": stack.device,
            "threads": stack.threads,
            "num_rows": reference.index.num_rows,
            "reference": side_request(reference, paths["reference"], paths["heads"]),
            "candidate": side_request(candidate, paths["candidate"], paths["heads"]),
        }

    return AgentCall(
        command="score",
        folders={
            "out": Folder(host=out, writable=True),
            "heads": Folder(host=stack.heads),
            "reference": Folder(host=reference.folder),
            "candidate": Folder(host=candidate.folder),
        },
        request=request,
        environment=stack.environment,
    )
