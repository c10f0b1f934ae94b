"""When two ledgers may stand in one table: the same reference rows, workload, path and positions."""

from __future__ import annotations

import numpy as np

from suite.score.ledger import Ledger

FACTS = ("tokens_sha256", "num_tokens", "path", "vocab_size", "ref_dtype")
_COLUMNS = {
    "target_id": "recorded tokens",
    "turn": "turns",
    "range_index": "ranges",
    "span_kind": "span kinds",
    "ref_row_sha256": "reference rows",
}


def differing(first: Ledger, second: Ledger) -> list[str]:
    """In what two ledgers are not of the same reference and probes; empty if they may be compared."""
    keys = [key for key in FACTS if getattr(first.facts, key) != getattr(second.facts, key)]
    if not np.array_equal(first.columns["position"], second.columns["position"]):
        return [*keys, "positions"]
    return keys + [
        words for name, words in _COLUMNS.items() if not np.array_equal(first.columns[name], second.columns[name])
    ]


def told_differences(first: Ledger, second: Ledger) -> list[str]:
    """The same in words: each key with both values where it is one of the ledgers' facts."""
    words = []
    for key in differing(first, second):
        ours, theirs = (getattr(ledger.facts, key, None) for ledger in (first, second))
        words.append(key if ours is None else f"{key} ({_short(ours)} and {_short(theirs)})")
    return words


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}..."
