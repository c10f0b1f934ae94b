"""Whether time grows with the size of what is read, and no faster."""

import time
from collections.abc import Callable

TIMES = 4
"""How much larger the large case is: linear work takes 4 times as long, quadratic work 16 times."""


def assert_linear(work: Callable[[int], object], size: int) -> float:
    """`work` of four times `size` takes less than 8 times as long; returns how long that was, in seconds.

    A quadratic step shows only where it is not small beside the rest: choose a size that takes milliseconds.
    """
    small = large = float("inf")
    for _ in range(5):
        small, large = min(small, seconds(work, size)), min(large, seconds(work, size * TIMES))
        if large < 8 * max(small, 0.0005):
            return large
    raise AssertionError(f"{size}: {small:.4f} s, {size * TIMES}: {large:.4f} s")


def seconds(work: Callable[[int], object], size: int) -> float:
    """Time of this process, so that a busy machine does not decide."""
    started = time.process_time()
    work(size)
    return time.process_time() - started
