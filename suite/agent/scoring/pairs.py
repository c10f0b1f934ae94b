"""Two captures of hidden states scored on one device: rows of both are made, compared and dropped, batch by batch.

A row's bits depend on the shape of the matrix product that makes it. Captures apply the head to `rows_per_gemm` rows at
a time; on a GPU that reads the head once per 64 rows, so wider products are tried first and kept if a whole batch comes
out the same bit for bit.

Every row is checked against what the capture stored of it: the 64 best logits must be equal in every bit, and the
logsumexp to 1e-12. A logit that differs by one unit in the last place of BF16 shows there unless its probability is
below some 1e-11, where it changes no score by more than that. The row's SHA-256 is not recomputed: hashing 100,000 rows
of 497 KB takes a minute and more, scoring them a second or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from suite.agent.events import AgentFailure
from suite.agent.head import Head
from suite.agent.scoring.columns import Raw, columns_of
from suite.agent.scoring.hidden import Batch, HiddenStates
from suite.agent.scoring.score import measure

ROWS_AT_ONCE = 1024
"""Rows of a batch on a GPU: at a vocabulary of 248,320 in BF16, 0.5 GB a side."""
_TOLERANCE = 1e-12
_BITS = {2: torch.int16, 4: torch.int32}


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One capture of hidden states."""

    head: Head
    chunks: tuple[str, ...]
    """Chunk files, in order."""
    rows_per_gemm: int
    """Rows per matrix product when its rows were fingerprinted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Scores of all n probes, on the CPU."""

    columns: dict[str, np.ndarray[Any, Any]]
    """Every column of `suite.score.interface.KERNEL_COLUMNS`, `[n]`."""
    reference_captured: np.ndarray[Any, Any]
    """bool `[n]`: the row that was scored is the captured one, as far as the check above sees."""
    candidate_captured: np.ndarray[Any, Any]
    rows_per_product: tuple[int, int]
    """Rows per matrix product on either side."""


@torch.inference_mode()  # type: ignore[untyped-decorator]
def score_captures(
    reference: Side,
    candidate: Side,
    device: str,
    *,
    rows_at_once: int = ROWS_AT_ONCE,
    told: Callable[[int], None] = lambda count: None,
) -> Scores:
    """Score every probe of two captures of the same positions.

    Args:
        reference: Its head lies on `device`.
        candidate: Its head lies on `device`.
        device: `cpu`, or a CUDA device.
        rows_at_once: Rows of a batch; on the CPU never wider than the captures' own products.
        told: Told how many more probes are done.

    Raises:
        AgentFailure: the captures are not of the same probes.
    """
    sides = (reference, candidate)
    if not device.startswith("cuda"):
        rows_at_once = max(side.rows_per_gemm for side in sides)
    widths: list[int] | None = None
    done: list[_Scored] = []
    previous: _Scored | None = None
    for batches in _batches(sides, device, rows_at_once):
        if widths is None:
            widths = [widest(side, batch["rows"], rows_at_once) for side, batch in zip(sides, batches, strict=True)]
        scored = _score(sides, batches, widths)
        # Looked at one batch late, so that the device has work while this side waits.
        if previous is not None:
            done.append(_settled(sides, previous, widths))
            told(len(previous.batches[0]["rows"]))
        previous = scored
    if previous is None or widths is None:
        raise AgentFailure("incomplete", "the captures hold no probe", "capture again")
    done.append(_settled(sides, previous, widths))
    told(len(previous.batches[0]["rows"]))
    return Scores(
        columns={name: torch.cat([s.columns[name] for s in done]).cpu().numpy() for name in done[0].columns},
        reference_captured=torch.cat([s.captured[0] for s in done]).cpu().numpy(),
        candidate_captured=torch.cat([s.captured[1] for s in done]).cpu().numpy(),
        rows_per_product=(widths[0], widths[1]),
    )


@torch.inference_mode()  # type: ignore[untyped-decorator]
def warm_up(reference: Side, candidate: Side, device: str) -> None:
    """Score one pair of rows of zeros, so that kernels are compiled and libraries loaded before anything is timed."""

    def row(side: Side) -> torch.Tensor:
        hidden = torch.zeros((1, side.head.weights[0].shape[1]), dtype=side.head.dtype, device=device)
        return side.head.logits(hidden, side.rows_per_gemm)

    ours, theirs = row(reference), row(candidate)
    targets = torch.zeros(1, dtype=torch.int64, device=device)
    columns_of(measure(ours, theirs), ours, theirs, targets)["finite_ref"].cpu()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scored:
    batches: tuple[Batch, Batch]
    columns: dict[str, torch.Tensor]
    captured: tuple[torch.Tensor, torch.Tensor]


def _batches(sides: tuple[Side, Side], device: str, count: int) -> Iterator[tuple[Batch, Batch]]:
    ours, theirs = (HiddenStates(side.chunks, device) for side in sides)
    while True:
        a, b = ours.take(count), theirs.take(count)
        if a is None and b is None:
            return
        if a is None or b is None or not torch.equal(a["positions"], b["positions"]):
            raise AgentFailure("incomplete", "the captures are not of the same positions", "capture them again")
        yield a, b


def widest(side: Side, hidden: torch.Tensor, rows_at_once: int) -> int:
    """How many rows a matrix product may have: the batch, if that gives the bits of the capture's own width."""
    if rows_at_once <= side.rows_per_gemm or len(hidden) <= side.rows_per_gemm:
        return side.rows_per_gemm
    narrow = side.head.logits(hidden, side.rows_per_gemm)
    wide = side.head.logits(hidden, rows_at_once)
    same = torch.equal(_bits(narrow), _bits(wide))
    return rows_at_once if same else side.rows_per_gemm


def _score(sides: tuple[Side, Side], batches: tuple[Batch, Batch], widths: list[int]) -> _Scored:
    ours, theirs = (s.head.logits(b["rows"], w) for s, b, w in zip(sides, batches, widths, strict=True))
    raw = measure(ours, theirs)
    targets = batches[0]["target_ids"].to(ours.device, non_blocking=True)
    return _Scored(
        batches=batches,
        columns=columns_of(raw, ours, theirs, targets),
        captured=(captured_rows(ours, raw, 0, batches[0]), captured_rows(theirs, raw, 1, batches[1])),
    )


def _settled(sides: tuple[Side, Side], scored: _Scored, widths: list[int]) -> _Scored:
    """The same, made again at the captures' own width where a wider product has other bits somewhere."""
    own = [side.rows_per_gemm for side in sides]
    if widths == own or bool((scored.captured[0] & scored.captured[1]).all()):
        return scored
    return _score(sides, scored.batches, own)


def captured_rows(rows: torch.Tensor, raw: Raw, side: int, stored: Batch) -> torch.Tensor:
    """Which rows are those that were captured, bool `[n]`."""
    kept = rows.gather(1, stored["top_ids"].long())
    same = (_bits(kept) == _bits(stored["top_logits"])).all(1)
    largest, _, log_total = raw.floats[:, 3 * side : 3 * side + 3].unbind(1)
    logsumexp = stored["logsumexp"]
    same &= largest == stored["top_logits"][:, 0].double()
    same &= same_logsumexp(largest + log_total, logsumexp)
    # A row that is not finite gives no score; that it was so when it was captured is all that can be said.
    return torch.where(raw.integers[:, 2 + side] != 0, same, ~torch.isfinite(logsumexp))


def same_logsumexp(found: Any, stored: Any) -> Any:
    """Which of two float64 `[n]`, both tensors or both arrays, agree as closely as two ways of one sum do."""
    return abs(found - stored) <= _TOLERANCE * abs(stored).clip(min=1.0)


def _bits(rows: torch.Tensor) -> torch.Tensor:
    return rows.view(_BITS[rows.element_size()])
