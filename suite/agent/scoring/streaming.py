"""Scores made while the engine runs: each step's rows against the stored hidden states of a reference.

The option for cards with room for a second head. It leaves what the `score` command leaves, so the host reads both
alike; after the capture has got its fingerprints, each scored row is checked against them, as the command checks it.
The reference's head, gigabytes that have to be hashed, is loaded while the engine computes; the rows of its first steps
wait for it on the device.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.agent.events import AgentFailure
from suite.agent.head import Head, load_head
from suite.agent.rows import use_all_cores
from suite.agent.scoring.columns import columns_of
from suite.agent.scoring.hidden import HiddenStates
from suite.agent.scoring.pairs import ROWS_AT_ONCE, Side, captured_rows, same_logsumexp, warm_up, widest
from suite.agent.scoring.score import measure

_WAITING_BYTES = 1 << 30
"""Hidden states that may wait for the reference's head; then the engine waits too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What one batch left on the device."""

    columns: dict[str, torch.Tensor]
    reference_captured: torch.Tensor
    largest: torch.Tensor
    logsumexp: torch.Tensor


class StreamingScores:
    """Takes the candidate's hidden states in order of position; the device is not waited for before `finish`."""

    def __init__(
        self, reference: dict[str, Any], head: Head, device: str, rows_per_gemm: int, tokens: np.ndarray[Any, Any]
    ) -> None:
        """Begin to load the reference's head and to read its hidden states.

        Args:
            reference: Its `chunks`, `heads`, `shards` and `rows_per_gemm`, as for the `score` command.
            head: The candidate's, on `device`.
            device: Where the engine computes.
            rows_per_gemm: The candidate's rows per matrix product.
            tokens: All token ids of the workload.
        """
        self._device = torch.device(device)
        self._stored = HiddenStates(reference["chunks"], device)
        loader = ThreadPoolExecutor(1, "suite-load", initializer=use_all_cores)
        self._sides = loader.submit(self._load, reference, Side(head=head, chunks=(), rows_per_gemm=rows_per_gemm))
        loader.shutdown(wait=False)
        self._waiting: deque[tuple[torch.Tensor, np.ndarray[Any, Any]]] = deque()
        self._waiting_bytes = 0
        self._tokens = torch.from_numpy(tokens.astype(np.int64)).to(device)
        self._rows_at_once = ROWS_AT_ONCE if device.startswith("cuda") else rows_per_gemm
        self._widths: list[int] | None = None
        self._parts: list[_Part] = []

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _load(self, reference: dict[str, Any], candidate: Side) -> tuple[Side, Side]:
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)  # a thread begins on the first card
        device = str(self._device)
        own = load_head(Path(reference["heads"]), reference["shards"], device)
        sides = Side(head=own, chunks=(), rows_per_gemm=reference["rows_per_gemm"]), candidate
        warm_up(*sides, device)
        return sides

    def push(self, rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        """Score hidden states `[n, hidden]` at these positions, at the latest when the reference's head is there.

        Raises:
            AgentFailure: the reference has other positions, or its head was changed.
            OSError: the head or a chunk cannot be read.
            torch.OutOfMemoryError: no room for them.
        """
        self._waiting.append((rows, positions))
        self._waiting_bytes += rows.nbytes
        if self._sides.done() or self._waiting_bytes > _WAITING_BYTES:
            self._catch_up()

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _catch_up(self) -> None:
        sides = self._sides.result()
        while self._waiting:
            rows, positions = self._waiting.popleft()
            for start in range(0, len(rows), self._rows_at_once):
                part = slice(start, start + self._rows_at_once)
                self._score(sides, rows[part], positions[part])
        self._waiting_bytes = 0

    def _score(self, sides: tuple[Side, Side], rows: torch.Tensor, positions: np.ndarray[Any, Any]) -> None:
        stored = self._stored.take(len(rows))
        if stored is None or not np.array_equal(stored["positions"].numpy(), positions):
            raise AgentFailure(
                "incomplete", "the reference was not captured at the candidate's positions", "score after the run"
            )
        hidden = (stored["rows"], rows)
        if self._widths is None:
            self._widths = [widest(s, h, self._rows_at_once) for s, h in zip(sides, hidden, strict=True)]
        ours, theirs = (s.head.logits(h, w) for s, h, w in zip(sides, hidden, self._widths, strict=True))
        raw = measure(ours, theirs)
        first = int(positions[0])
        even = int(positions[-1]) - first == len(positions) - 1  # then the targets need no index from the host
        targets = (
            self._tokens[first + 1 : first + 1 + len(positions)]
            if even
            else self._tokens[torch.from_numpy(positions + 1).to(self._tokens.device, non_blocking=True)]
        )
        self._parts.append(
            _Part(
                columns=columns_of(raw, ours, theirs, targets),
                reference_captured=captured_rows(ours, raw, 0, stored),
                largest=raw.floats[:, 3],
                logsumexp=raw.floats[:, 3] + raw.floats[:, 5],
            )
        )

    def finish(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns of all rows in order, `reference_captured`, and the candidate's `largest` logit and `logsumexp`.

        Raises:
            AgentFailure: the reference has further positions, or as `push`.
            OSError: as `push`.
            torch.OutOfMemoryError: as `push`.
        """
        self._catch_up()
        if self._stored.take(1) is not None or not self._parts:
            raise AgentFailure(
                "incomplete", "the reference was captured at positions that the candidate lacks", "score after the run"
            )
        parts, self._parts = self._parts, []
        names = parts[0].columns
        return {name: torch.cat([p.columns[name] for p in parts]).cpu().numpy() for name in names} | {
            name: torch.cat([getattr(p, name) for p in parts]).cpu().numpy()
            for name in ("reference_captured", "largest", "logsumexp")
        }


def settle(
    streamed: dict[str, np.ndarray[Any, Any]], stored: dict[str, np.ndarray[Any, Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of `suite.agent.scoring.pairs.Scores`, once the candidate's fingerprints are known.

    Args:
        streamed: What `StreamingScores.finish` gave, n rows.
        stored: The candidate's `top_ids` `[n, k]`, best logit as `largest` `[n]`, and `logsumexp` `[n]`.
    """
    columns = {name: values for name, values in streamed.items() if name not in ("largest", "logsumexp")}
    same = (stored["largest"] == streamed["largest"]) & same_logsumexp(streamed["logsumexp"], stored["logsumexp"])
    same &= stored["top_ids"][:, 0] == streamed["cand_top1"]
    finite = streamed["finite_cand"].astype(bool)
    return columns | {"candidate_captured": np.where(finite, same, ~np.isfinite(stored["logsumexp"]))}
