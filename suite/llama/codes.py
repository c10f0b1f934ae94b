"""Rows of log-probabilities as llama.cpp stores them: 16-bit codes with a scale and a floor per row.

For a row of logits z with largest value m and clip C (nats): floor logit f = max(min z, m - C), scale
s = (m - f)/65535, code q_i = round((z_i - f)/s), and 0 where z_i <= f; stored floor
ln p_min = f - m - ln Σ exp(z - m). Back: ln p_i = s·q_i + ln p_min. Clipped ids come back more likely than they
were, so Σ p is at least 1, and up to V·exp(-C) more: a row is not exactly normalised. All of it is float32 there,
and therefore here.
Source of the layout: `tools/perplexity/perplexity.cpp` of llama.cpp, which is its only specification.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import Rows, to_float32

CODE_MAX = 65535
_TOP = np.float32(CODE_MAX)


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedRows:
    """n rows as they lie in a file, pad cut."""

    scales: NDArray[np.float32]
    """[n], nats per code; 0 where all logits were equal, NaN where a logit was not finite."""
    floors: NDArray[np.float32]
    """[n], ln p of code 0."""
    codes: NDArray[np.uint16]
    """[n, V]"""

    @property
    def finite(self) -> NDArray[np.bool_]:
        """[n], whether scale and floor are finite; where not, the model had computed NaN or an infinity."""
        return np.isfinite(self.scales) & np.isfinite(self.floors)

    def log_p(self) -> NDArray[np.float32]:
        """[n, V] raw ln p, as llama.cpp reads it back; NaN in rows that are not finite. Not exactly normalised."""
        rows = self.logits()
        rows += np.where(self.finite, self.floors, np.float32("nan"))[:, None]
        return rows

    def logits(self) -> NDArray[np.float32]:
        """[n, V] scale · code: the logits up to a constant per row; NaN in rows that are not finite.

        Unlike ln p, equal numbers here mean equal codes and different ones different codes, whatever the scale.
        """
        scales = np.where(self.finite, self.scales, np.float32("nan"))
        return self.codes.astype(np.float32) * scales[:, None]

    def normalised_log_p(self) -> NDArray[np.float64]:
        """[n, V] ln of the distribution that sums to 1, in FP64."""
        rows = self.codes * self.scales.astype(np.float64)[:, None]
        return rows - self._log_totals(rows)[:, None]

    def mass(self) -> NDArray[np.float64]:
        """[n] Σ p of the raw ln p, in FP64: 1 plus what clipping added, and rounding."""
        rows = self.codes * self.scales.astype(np.float64)[:, None]
        return np.exp(self._log_totals(rows) + self.floors.astype(np.float64))

    @staticmethod
    def _log_totals(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        best = rows.max(axis=1)
        totals: NDArray[np.float64] = best + np.log(np.exp(rows - best[:, None]).sum(axis=1))
        return totals


def encode_rows(logits: Rows, *, clip_nats: int) -> EncodedRows:
    """Encode n rows of logits.

    Args:
        logits: [n, V] in any stored dtype; a constant added to a row changes nothing but rounding.
        clip_nats: 16 (llama.cpp) or 24 (ik_llama.cpp).

    Returns:
        The codes. A row with NaN or an infinity gets the scale NaN, the floor NaN and codes 0.
    """
    values = to_float32(logits)
    finite = np.atleast_1d(np.isfinite(values).all(axis=1))
    if not finite.all():
        values = np.where(finite[:, None], values, np.float32(0))
    best = values.max(axis=1)
    lowest = np.maximum(values.min(axis=1), best - np.float32(clip_nats))
    log_totals = np.empty(len(values), dtype=np.float32)
    for row, top in enumerate(best):  # a row at a time keeps the FP64 scratch small
        log_totals[row] = np.log(np.exp((values[row] - top).astype(np.float64)).sum())
    scales = (best - lowest) / _TOP
    floors = lowest - best - log_totals
    # The reciprocal of a subnormal scale overflows; such a row is flat for every purpose.
    flat = scales < np.finfo(np.float32).tiny
    scales = np.where(flat, np.float32(0), scales)
    inverse = np.float32(1) / np.where(flat, np.float32(1), scales)
    steps = np.maximum(values - lowest[:, None], np.float32(0)) * inverse[:, None]
    codes = np.minimum(np.rint(steps), _TOP).astype(np.uint16)
    codes[flat | ~finite] = 0
    nan = np.float32("nan")
    return EncodedRows(scales=np.where(finite, scales, nan), floors=np.where(finite, floors, nan), codes=codes)
