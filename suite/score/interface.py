"""What a scoring kernel must do, and the columns it returns."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import Rows

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
"""What a kernel returns per probe. Formulas: `suite.score.metrics`."""


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
