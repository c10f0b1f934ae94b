"""What a scoring kernel must do, and the columns it returns."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import Rows
from suite.errors import InvalidInput

Columns = dict[str, NDArray[Any]]
"""Column name to array [n]; the names and dtypes are those of `KERNEL_COLUMNS`."""

KERNEL_COLUMNS: dict[str, type[np.generic]] = {
    "ref_top1": np.int32,
    "cand_top1": np.int32,
    "ref_p_ref_top1": np.float64,
    "ref_p_cand_top1": np.float64,
    "cand_p_ref_top1": np.float64,
    "cand_p_cand_top1": np.float64,
    "ref_margin_nats": np.float64,
    "ref_margin_ulps": np.float64,
    "cand_margin_nats": np.float64,
    "flip": np.bool_,
    "tied": np.bool_,
    "rank_ref_top1_in_cand": np.int32,
    "kl_ref_cand": np.float64,
    "kl_cand_ref": np.float64,
    "jsd": np.float64,
    "total_variation": np.float64,
    "entropy_ref": np.float64,
    "entropy_cand": np.float64,
    "nll_ref": np.float64,
    "nll_cand": np.float64,
    "finite_ref": np.bool_,
    "finite_cand": np.bool_,
    "rounding_kl": np.float64,
}
"""What a kernel returns per probe. Formulas: `suite.score.numpy_kernel`."""


class Kernel(Protocol):
    """One implementation of the metrics. All implementations agree to 1e-9 relative or 1e-12 absolute, ids exactly."""

    @property
    def name(self) -> str:
        """Short name for receipts, for example `numpy`."""

    def score_block(self, reference: Rows, candidate: Rows | None, target_ids: NDArray[np.int64]) -> Columns:
        """Score n probes.

        Args:
            reference: [n, V] logits of the reference in its stored dtype, padding cut.
            candidate: [n, V] logits of the candidate in its stored dtype; None says that every row is bit for bit
                the reference's, and the divergences are then exactly 0.
            target_ids: [n] recorded tokens, each in [0, V).

        Returns:
            Every column of `KERNEL_COLUMNS`. Where a row of either side is not finite, both top-1 are -1, the rank
            is 0, `flip` and `tied` are false and every float is NaN.

        Raises:
            InvalidInput: shapes do not agree, or a target lies outside the vocabulary.
        """


def empty_columns(count: int) -> Columns:
    """Columns of n pairs as they are where a row is not finite."""
    columns: Columns = {}
    for name, kind in KERNEL_COLUMNS.items():
        if kind is np.float64:
            columns[name] = np.full(count, np.nan)
        elif kind is np.bool_:
            columns[name] = np.zeros(count, dtype=np.bool_)
        else:
            columns[name] = np.full(count, 0 if name.startswith("rank") else -1, dtype=kind)
    return columns


def check_shapes(reference: Rows, candidate: Rows | None, target_ids: NDArray[np.int64]) -> None:
    """Refuse what no kernel can score.

    Raises:
        InvalidInput: shapes do not agree, or a target lies outside the vocabulary.
    """
    if reference.ndim != 2 or reference.shape[1] < 2:
        raise InvalidInput(f"rows of shape {reference.shape} cannot be scored; at least two columns are needed")
    if candidate is not None and candidate.shape != reference.shape:
        raise InvalidInput(f"the reference's rows have shape {reference.shape}, the candidate's {candidate.shape}")
    if target_ids.shape != (len(reference),):
        raise InvalidInput(f"{len(reference)} rows, but targets of shape {target_ids.shape}")
    if target_ids.size and not 0 <= target_ids.min() <= target_ids.max() < reference.shape[1]:
        raise InvalidInput(
            "a target id lies outside the vocabulary", hint="the tokenizer does not belong to this model"
        )
