"""Other requests that share the captured one's steps, for stacks that ask whether a neighbour changes its bits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np


def company(
    prompt: np.ndarray[Any, Any], new_tokens: int, *, neighbours: int, own_lengths: Collection[int]
) -> list[tuple[np.ndarray[Any, Any], int]]:
    """Prompts of `neighbours` other requests and how many tokens each generates.

    A neighbour's prompt is the captured one without its first few tokens: about as long, so that both are read in the
    same steps, and another text at every position. It generates as many tokens more as it lacks, so that it is still
    there in the captured request's last step.

    Args:
        prompt: Token ids of the captured request.
        new_tokens: Tokens that the captured request generates.
        neighbours: How many.
        own_lengths: Lengths of the prompts that are captured; no neighbour has one of them, so that a length tells the
            worker whose rows it sees.

    Raises:
        ValueError: the prompt is too short for so many.
    """
    lacking = [d for d in range(1, len(prompt)) if len(prompt) - d not in own_lengths][:neighbours]
    if len(lacking) < neighbours:
        raise ValueError(f"a prompt of {len(prompt)} tokens has no {neighbours} neighbours of other lengths")
    return [(prompt[d:], new_tokens + d) for d in lacking]
