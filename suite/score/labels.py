"""What each probe is called in the ledger: its turn, span kind and range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.errors import InvalidInput
from suite.score.interface import Columns
from suite.score.ledger import WINDOW_TOKENS
from suite.workload.rendered import Rendered


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """Labels of every token of a workload; a probe takes turn, kind and range from the token that it predicts."""

    token_ids: NDArray[np.int64]
    """[num_tokens]"""
    turns: NDArray[np.int32]
    """[num_tokens], index of the message."""
    kinds: NDArray[np.str_]
    """[num_tokens], innermost span kind, literals included; empty where no span covers the token."""
    ranges: NDArray[np.int64]
    """[k, 2], half-open capture ranges in order."""

    @classmethod
    def of(cls, rendered: Rendered, ranges: Sequence[Sequence[int]] = ()) -> Labels:
        """Labels of a rendered session under the capture ranges of a lock.

        Args:
            rendered: The session's tokens, spans (an enclosing span before those inside it) and turns.
            ranges: Half-open token ranges `[a, b)`, sorted and disjoint; empty for a stride capture.
        """
        kinds = np.full(rendered.num_tokens, "", dtype="<U20")
        for span in rendered.spans:
            kinds[span.start : span.end] = span.kind
        return cls(
            token_ids=np.array(rendered.token_ids, dtype=np.int64),
            turns=np.array(rendered.turn_indices(), dtype=np.int32),
            kinds=kinds,
            ranges=np.array(ranges, dtype=np.int64).reshape(-1, 2),
        )

    def columns(self, positions: NDArray[np.int64], target_ids: NDArray[np.int64]) -> Columns:
        """Label columns of n probes: position, token_id, target_id, turn, window, range_index, span_kind.

        Raises:
            InvalidInput: the recorded tokens of the probes are not this workload's.
        """
        if positions.size and positions[-1] + 1 >= len(self.token_ids):
            raise InvalidInput(
                f"a probe at position {positions[-1]}, but the workload has {len(self.token_ids)} tokens"
            )
        targets = self.token_ids[positions + 1]
        differing = np.flatnonzero(targets != target_ids)
        if differing.size:
            at = int(positions[differing[0]])
            raise InvalidInput(f"the capture's token at position {at + 1} is not the workload's")
        return {
            "position": positions,
            "token_id": self.token_ids[positions].astype(np.int32),
            "target_id": targets.astype(np.int32),
            "turn": self.turns[positions + 1],
            "window": (positions // WINDOW_TOKENS).astype(np.int32),
            "range_index": range_indices(positions + 1, self.ranges),
            "span_kind": self.kinds[positions + 1],
        }


def range_indices(tokens: NDArray[np.int64], ranges: NDArray[np.int64]) -> NDArray[np.int32]:
    """Index of the half-open range that holds each token, -1 for none.

    Args:
        tokens: [n], places of tokens in the workload.
        ranges: [k, 2], sorted and disjoint.
    """
    if not len(ranges):
        return np.full(len(tokens), -1, dtype=np.int32)
    index = np.searchsorted(ranges[:, 0], tokens, side="right") - 1
    inside = (index >= 0) & (tokens < ranges[np.maximum(index, 0), 1])
    return np.where(inside, index, -1).astype(np.int32)
