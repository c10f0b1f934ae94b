"""When two ledgers may stand in one table: the same reference rows, workload, path and positions."""

from __future__ import annotations

import numpy as np

from suite.errors import InvalidInput
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


def require_same_probes(first: Ledger, second: Ledger, *, names: tuple[str, str]) -> None:
    """Refuse two ledgers that cannot stand in one table.

    Args:
        first: One ledger.
        second: The other.
        names: How to call them.

    Raises:
        InvalidInput: with every differing key, and both values where they are short.
    """
    keys = differing(first, second)
    if not keys:
        return
    told = []
    for key in keys:
        values = [getattr(ledger.facts, key, None) for ledger in (first, second)]
        told.append(key if values[0] is None else f"{key} ({_short(values[0])} and {_short(values[1])})")
    raise InvalidInput(
        f"{names[0]} and {names[1]} cannot be compared: they differ in {', '.join(told)}",
        hint="compare bundles of one reference, workload, path and set of positions",
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}..."
