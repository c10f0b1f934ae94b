"""The four classes into which every flip falls."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

FlipClass = Literal["tied", "uncertain", "leaning", "confident"]
FLIP_CLASSES: tuple[FlipClass, ...] = ("tied", "uncertain", "leaning", "confident")

LEANING_FROM = 0.5
CONFIDENT_FROM = 0.9


def flip_class(tied: bool, ref_p_ref_top1: float) -> FlipClass:
    """Class of one flip: tied first, else by the reference's probability of its own top-1.

    uncertain below 0.5, leaning from 0.5, confident from 0.9.
    """
    if tied:
        return "tied"
    if ref_p_ref_top1 >= CONFIDENT_FROM:
        return "confident"
    return "leaning" if ref_p_ref_top1 >= LEANING_FROM else "uncertain"


def flip_classes(
    flip: NDArray[np.bool_], tied: NDArray[np.bool_], ref_p_ref_top1: NDArray[np.float64]
) -> NDArray[np.str_]:
    """Class of each of n probes; the empty string where there is no flip."""
    return np.select(
        [~flip, tied, ref_p_ref_top1 >= CONFIDENT_FROM, ref_p_ref_top1 >= LEANING_FROM],
        ["", "tied", "confident", "leaning"],
        default="uncertain",
    )
