"""The two sides of `suite score`: capture folders or llama.cpp base files, with the labels that they bring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.bundle.schema import RECORD_NAME
from suite.capture.index import INDEX_NAME
from suite.capture.rows import RowFactory, RowSource, open_rows
from suite.capture.store import Capture, open_capture
from suite.errors import InvalidInput
from suite.files import sha256_bytes
from suite.observer import Observer
from suite.run.captures import TOKENS_NAME
from suite.score.labels import Labels
from suite.score.turns import NO_TURN
from suite.workload.rendered import Rendered

UNKNOWN_TOKEN = -1
"""`token_id` in the ledger of a bare capture where no probe predicts the token and no workload is at hand."""

_RENDERED_LIMIT_BYTES = 256 << 20
_FIRST_START = "start-0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side, opened."""

    path: Path
    rows: RowSource
    own_labels: Labels | None
    """Labels with turns that the side itself brings; None for a capture of a stack, which knows positions only."""
    capture: Capture | None
    """None for a base file."""


def open_side(path: Path, *, replay: RowFactory | None, observer: Observer) -> Side:
    """Open a capture folder, or a base file of llama.cpp.

    Args:
        path: A start's folder, the folder above it (start 0 is meant), or a base file.
        replay: Recomputes rows of a `hidden` capture.
        observer: Told of progress.

    Raises:
        InvalidInput: neither of them, or damaged.
        MissingPrerequisite, VerificationFailed: see `suite.capture.rows.open_rows`.
    """
    if not path.is_dir():
        from suite.llama.rows import open_llama_rows

        rows = open_llama_rows(path, observer=observer)
        return Side(path=path, rows=rows, own_labels=rows.labels, capture=None)
    if (path / RECORD_NAME).is_file():
        raise InvalidInput(
            "a result bundle holds no rows",
            where=str(path),
            hint="name two captures, or use `suite compare` for bundles",
        )
    folder = path if (path / INDEX_NAME).is_file() or not (path / _FIRST_START).is_dir() else path / _FIRST_START
    capture = open_capture(folder)
    from suite.llama.sidecar import is_import, read_sidecar

    labels = read_sidecar(folder, capture.index).labels if is_import(capture.index) else None
    return Side(path=path, rows=open_rows(capture, replay=replay), own_labels=labels, capture=capture)


def labels_for(reference: Side, candidate: Side, rendered: Rendered | None) -> Labels:
    """Labels of the probes: from the rendered session, else from a side that brings its own, else positions only.

    Raises:
        InvalidInput: the rendered session is not what the captures are of.
    """
    index = reference.rows.index
    if rendered is not None:
        if rendered.tokens_sha256 != index.tokens_sha256:
            raise InvalidInput(
                f"the rendered session has other tokens (tokens_sha256 {rendered.tokens_sha256[:12]}) than the "
                f"reference ({index.tokens_sha256[:12]})",
                hint="give the rendering that was captured (suite workload render)",
            )
        return Labels.of(rendered, _ranges(reference))
    own = reference.own_labels or candidate.own_labels
    return own if own is not None else _bare_labels(reference)


def read_rendered(path: Path) -> Rendered:
    """Read what `suite workload render` wrote.

    Raises:
        InvalidInput: unreadable, too large, or not a rendered session.
    """
    try:
        if path.stat().st_size > _RENDERED_LIMIT_BYTES:
            raise InvalidInput(f"larger than {_RENDERED_LIMIT_BYTES:,} bytes", where=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    return Rendered.from_json(data, where=str(path))


def _bare_labels(side: Side) -> Labels:
    assert side.capture is not None
    index = side.rows.index
    tokens = _stored_tokens(side.capture)
    if tokens is None:
        table = side.capture.probes()
        tokens = np.full(index.num_tokens, UNKNOWN_TOKEN, dtype=np.int64)
        tokens[table.positions + 1] = table.target_ids
    return Labels(
        token_ids=tokens,
        turns=np.full(index.num_tokens, NO_TURN, dtype=np.int32),
        kinds=np.full(index.num_tokens, "", dtype="<U20"),
        ranges=np.array(_ranges(side), dtype=np.int64).reshape(-1, 2),
    )


def _stored_tokens(capture: Capture) -> NDArray[np.int64] | None:
    """The tokens that a run keeps beside its captures, if they are those of this one."""
    path = capture.folder.parent / "inputs" / TOKENS_NAME
    if not path.is_file() or path.stat().st_size > 8 * capture.index.num_tokens + 4096:
        return None
    try:
        tokens = np.load(path, allow_pickle=False)
    except ValueError:
        return None
    little = np.ascontiguousarray(tokens, dtype="<i4")
    if little.ndim != 1 or sha256_bytes(little.tobytes()) != capture.index.tokens_sha256:
        return None
    found: NDArray[np.int64] = little.astype(np.int64)
    return found


def _ranges(side: Side) -> tuple[tuple[int, int], ...]:
    """Capture ranges of the lock that the store keeps beside a capture; none where there is no such lock."""
    from suite.errors import SuiteError
    from suite.reference.store import open_stored

    if side.capture is None:
        return ()
    try:
        return tuple((a, b) for a, b in open_stored(side.capture.folder).lock.capture.ranges)
    except SuiteError:
        return ()
