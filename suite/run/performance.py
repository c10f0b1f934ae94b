"""What a run says about time and memory: phases of every start, prefill rate, KV capacity."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from suite.capture.store import Capture
from suite.files import read_json


def performance_of(captures: Sequence[Capture]) -> dict[str, Any]:
    """`performance.json` of one stack's starts.

    Rates are those of a capture under the measure settings, with other starts possibly at work beside it: they tell
    how long this run took, and are no speed of the stack. Times in seconds.
    """
    receipt = read_json(captures[0].folder / "receipt.json")
    index = captures[0].index
    name = f"capture {index.path}"
    tokens = sum(count for _, count in index.steps)
    rates = [tokens / c.index.timings[name] for c in captures if c.index.timings.get(name)]
    return {
        "schema_version": 1,
        "note": "times of the captures under the measure settings; not a speed of the stack",
        "starts": [{"start": c.index.start, "phase_seconds": dict(c.index.timings)} for c in captures],
        "median_tokens_per_second": round(median(rates), 1) if rates else None,
        "kv_capacity_tokens": receipt["ranks"][0]["kv_cache"]["capacity_tokens"],
        "capture_bytes": sum(chunk.size_bytes for chunk in index.chunks),
    }
