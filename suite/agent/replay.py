"""Give the logits rows of a hidden capture back, in the capture's own stack, a few blocks at a time.

The host reads `block-<n>.bin` from the spool folder and deletes it; this side never has more than `window` blocks
waiting, so a capture of any length is replayed in constant space.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from suite.agent.events import Events, write_json
from suite.agent.head import load_head
from suite.agent.rows import row_bytes, row_hashes

_POLL_SECONDS = 0.002


def run(request: dict[str, Any], events: Events) -> None:
    """Replay every chunk of `request["chunks"]` (paths) with the head `request["shards"]` from `request["heads"]`.

    Each block file holds `n * vocab_size` logits in the head's output dtype, for the next n rows in order; `done.json`
    at the end says how many rows matched the hash their capture had stored.
    """
    torch.set_num_threads(request["threads"] or torch.get_num_threads())
    spool = Path(request["out"])
    device = request["device"]
    head = load_head(Path(request["heads"]), request["shards"], device)
    rows_per_gemm, block_rows, window = request["rows_per_gemm"], request["block_rows"], request["window"]
    block_rows -= block_rows % rows_per_gemm
    matched = total = number = 0
    events.phase("replay", total=request["num_rows"], unit="rows")
    for path in request["chunks"]:
        with safe_open(path, framework="pt") as file:
            hidden, stored = file.get_tensor("rows"), file.get_tensor("row_sha256")
        for start in range(0, len(hidden), block_rows):
            with torch.inference_mode():
                logits = head.logits(hidden[start : start + block_rows].to(device), rows_per_gemm).cpu().contiguous()
            same = (row_hashes(logits) == stored[start : start + block_rows]).all(dim=1)
            matched += int(same.sum())
            total += len(logits)
            while len(list(spool.glob("block-*.bin"))) >= window:
                if (spool / "stop").exists():
                    return
                time.sleep(_POLL_SECONDS)
            temporary = spool / f".block-{number}.tmp"
            temporary.write_bytes(row_bytes(logits).tobytes())
            temporary.replace(spool / f"block-{number:06d}.bin")
            number += 1
            events.emit("advance", count=len(logits))
    write_json(spool / "done.json", {"rows": total, "matched": matched, "blocks": number})
