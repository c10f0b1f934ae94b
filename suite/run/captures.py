"""Starts of a stack in the capture store: found complete, or captured now in a fresh process."""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suite.capture.store import Capture, open_capture
from suite.errors import MissingPrerequisite, RunFailed
from suite.files import write_atomic
from suite.manifest.lock import Lock
from suite.model.store import only_process
from suite.observer import Observer
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder
from suite.runtime.process import free_bytes
from suite.stack.engine_arguments import engine_arguments, expected_settings, stack_environment

TOKENS_NAME = "tokens.npy"
SANITY_POSITIONS = 256
SANITY_MARGIN_NATS = 2.0
"""How far a candidate's mean NLL over the first positions may lie above its reference's. Four-bit weights rounded to
nearest cost a small model less than one nat; an engine that returns noise costs eight and more."""

_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """The capture store below the state folder."""

    home: Path

    @property
    def captures(self) -> Path:
        """One folder per capture digest, one below it per start."""
        return self.home / "captures"

    @property
    def heads(self) -> Path:
        """Output heads by SHA-256."""
        return self.captures / "heads"

    def start_folder(self, capture_digest: str, start: int) -> Path:
        """Where one start of one stack lies."""
        return self.captures / capture_digest / f"start-{start}"

    def find(self, capture_digest: str, start: int) -> Capture | None:
        """A complete start; None if there is none.

        Raises:
            InvalidInput, VerificationFailed: there is one, and it is damaged.
        """
        folder = self.start_folder(capture_digest, start)
        return open_capture(folder) if (folder / "index.json").is_file() else None


def require_same_steps(lock: Lock, reference: Capture, candidate: Capture) -> None:
    """With neighbours the captured request must be read as it is alone: else chunks are measured, not company.

    Raises:
        RunFailed: it was read in other steps than in its reference.
    """
    alone, beside = reference.index.steps, candidate.index.steps
    if lock.capture.neighbours and alone != beside:
        raise RunFailed(
            f"read in {len(beside)} steps beside its neighbours, in {len(alone)} by its reference: two things changed",
            where=lock.name,
            hint="let one step of both stacks hold all prompts whole (engine.max_num_batched_tokens)",
        )


def capture_start(
    stack: Stack,
    start: int,
    *,
    store: Store,
    resume: bool,
    sanity_max_nll: float | None,
    observer: Observer,
    cancelled: threading.Event | None = None,
    streamed_against: Capture | None = None,
) -> Capture:
    """Return start number `start` of `stack`, capturing it in a fresh process if the store lacks it.

    Args:
        stack: A prepared stack.
        start: From 0; start 0 is the one that is scored.
        store: Where captures lie.
        resume: Keep the whole chunks of an interrupted start; otherwise it begins anew.
        sanity_max_nll: Highest believable mean NLL of the first positions, nats; None: ln of the vocabulary size.
        observer: Told each phase.
        cancelled: Ends the wait for another process that captures the same start.
        streamed_against: A local capture of hidden states to score against while the engine runs.

    Raises:
        MissingPrerequisite: not enough disk space.
        VerificationFailed: a chunk that an interrupted start left is no longer what it wrote.
        RunFailed: the engine failed, took other settings than requested, or computes garbage.
    """
    folder = store.start_folder(stack.lock.capture_digest, start)
    with only_process(folder.with_name(f".{folder.name}.lock"), observer, cancelled=cancelled):
        found = store.find(stack.lock.capture_digest, start)
        if found is not None:
            observer.note("found in the capture store")
            return found
        _capture(
            stack,
            start,
            store=store,
            resume=resume,
            sanity_max_nll=sanity_max_nll,
            observer=observer,
            reference=streamed_against,
        )
        return open_capture(folder)


def _capture(
    stack: Stack,
    start: int,
    *,
    store: Store,
    resume: bool,
    sanity_max_nll: float | None,
    observer: Observer,
    reference: Capture | None,
) -> None:
    lock = stack.lock
    folder = store.start_folder(lock.capture_digest, start)
    if folder.exists() and not resume:
        shutil.rmtree(folder)
    inputs = store.captures / lock.capture_digest / "inputs"
    write_tokens(inputs, stack)
    write_atomic(store.captures / lock.capture_digest / "lock.json", lock.to_bytes())

    def request(paths: Mapping[str, str]) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "heads": paths["heads"],
            **checked_inputs(lock, paths),
            "engine": engine_arguments(lock),
            "path": lock.capture.path,
            "stride": lock.capture.stride,
            "ranges": [list(r) for r in lock.capture.ranges],
            "codec": lock.capture.codec,
            "rows_per_gemm": lock.capture.rows_per_gemm,
            "chunk_rows": lock.capture.chunk_rows,
            "neighbours": lock.capture.neighbours or 0,
            "expect": expected_settings(lock),
            "sanity_positions": SANITY_POSITIONS,
            "sanity_max_nll": sanity_max_nll,
            "lock_digest": lock.digest,
            "capture_digest": lock.capture_digest,
            "start": start,
            "score": None if reference is None else _streaming(reference, paths),
        }

    call = AgentCall(
        command="capture",
        folders={
            "out": Folder(host=folder, writable=True),
            "heads": Folder(host=store.heads, writable=True),
            "model": Folder(host=stack.model_folder),
            "inputs": Folder(host=inputs),
            **({} if reference is None else {"reference": Folder(host=reference.folder)}),
        },
        request=request,
        environment=stack_environment(lock),
    )
    stack.runtime.call(call, observer)
    observer.phase("")


def _streaming(reference: Capture, paths: Mapping[str, str]) -> dict[str, Any]:
    return side_request(reference, paths["reference"], paths["heads"]) | {
        "columns": f"{paths['out']}/{streamed_name(reference)}"
    }


def side_request(capture: Capture, folder: str, heads: str) -> dict[str, Any]:
    """One capture of hidden states as the agent's scoring takes it, by the folders that the stack sees."""
    assert capture.index.head is not None
    return {
        "chunks": [f"{folder}/{chunk.file}" for chunk in capture.index.chunks],
        "heads": heads,
        "shards": list(capture.index.head.sha256s),
        "rows_per_gemm": capture.index.rows_per_gemm,
    }


def streamed_name(reference: Capture) -> str:
    """File, in a candidate's start, of the scores against `reference` that were made while its engine ran."""
    return f"streamed-{reference.index_sha256[:12]}.npz"


def write_tokens(inputs: Path, stack: Stack) -> None:
    """Write a stack's rendered workload into its folder of inputs, as a `.npy` file of int32 token ids."""
    buffer = io.BytesIO()
    np.save(buffer, np.array(stack.rendered.token_ids, dtype=np.int32))
    write_atomic(inputs / TOKENS_NAME, buffer.getvalue())


def checked_inputs(lock: Lock, paths: Mapping[str, str]) -> dict[str, Any]:
    """What the request of every job with an engine holds: where it works, and what it reads, with the lock's hashes.

    Args:
        lock: The stack's.
        paths: Of the folders `out`, `model` and `inputs`, as the stack sees them; see `write_tokens`.
    """
    return {
        "out": paths["out"],
        "model": paths["model"],
        "model_files": lock.model_file_hashes,
        "tokens": f"{paths['inputs']}/{TOKENS_NAME}",
        "tokens_sha256": lock.workload.tokens_sha256,
    }


def capture_bytes(*, num_probes: int, hidden_size: int, vocab_size: int, dtype: str, codec: str) -> int:
    """Disk space of one start, in bytes: rows, and about 600 bytes of facts beside each.

    For codec `auto` the larger of the two, since a failed replay probe falls back to logits.
    """
    width = hidden_size if codec == "hidden" else vocab_size
    return num_probes * (width * _DTYPE_BYTES[dtype] + 600)


def require_disk(needed_bytes: int, *, home: Path) -> None:
    """Refuse to start what the disk cannot hold.

    Raises:
        MissingPrerequisite: less than `needed_bytes` free at the state folder.
    """
    free = free_bytes(home)
    if free < needed_bytes:
        raise MissingPrerequisite(
            f"the run needs about {needed_bytes / 1e9:,.2f} GB of disk, {free / 1e9:,.2f} GB are free",
            where=str(home),
            hint="free disk space, set SUITE_HOME to a larger disk, or use `codec: hidden` or a larger stride",
        )
