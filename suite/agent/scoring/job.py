"""The agent's `score` command: two captures of hidden states in, the columns of their ledger out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.agent.events import Events, write_json
from suite.agent.head import Head, load_head
from suite.agent.scoring.pairs import ROWS_AT_ONCE, Side, score_captures, warm_up

COLUMNS_NAME = "columns.npz"
FACTS_NAME = "score.json"


def run(request: dict[str, Any], events: Events) -> None:
    """Score `request["reference"]` and `request["candidate"]`, each `{chunks, heads, shards, rows_per_gemm}`.

    Leaves in `request["out"]` the arrays of `Scores` as `columns.npz` and, last, what it took as `score.json`.
    """
    torch.set_num_threads(request["threads"] or torch.get_num_threads())
    out, device = Path(request["out"]), request["device"]
    events.phase("load heads")
    heads: dict[tuple[str, ...], Head] = {}
    sides = []
    for name in ("reference", "candidate"):
        side = request[name]
        key = (side["heads"], *side["shards"])
        if key not in heads:
            heads[key] = load_head(Path(side["heads"]), side["shards"], device)
        sides.append(Side(head=heads[key], chunks=tuple(side["chunks"]), rows_per_gemm=side["rows_per_gemm"]))
    warm_up(*sides, device)
    loaded = events.done("load heads")
    events.phase("score", total=request["num_rows"], unit="probes")
    started = time.perf_counter()
    scores = score_captures(
        *sides,
        device,
        rows_at_once=request.get("rows_at_once") or ROWS_AT_ONCE,
        told=lambda count: events.emit("advance", count=count),
    )
    seconds = time.perf_counter() - started
    captured = {
        "reference_captured": scores.reference_captured,
        "candidate_captured": scores.candidate_captured,
    }
    save_arrays(out / COLUMNS_NAME, scores.columns | captured)
    write_json(
        out / FACTS_NAME,
        {
            "schema_version": 1,
            "rows": len(scores.reference_captured),
            "rows_per_product": list(scores.rows_per_product),
            "load_seconds": round(loaded, 3),
            "score_seconds": round(seconds, 3),
        },
    )
    events.done("score")


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a `.npz` file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            np.savez(stream, **arrays)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
