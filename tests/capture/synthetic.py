"""Captures made of chosen rows, as a stack would have left them on disk."""

import hashlib
from pathlib import Path

import numpy as np

from suite.capture.index import TOP_IDS
from suite.capture.rows import stored_dtype, to_float32
from suite.capture.tensors import write_tensors
from suite.files import canonical_json, sha256_bytes, sha256_file, write_atomic

RECEIPT = {
    "schema_version": 1,
    "requested": {"dtype": "bfloat16"},
    "effective": {"dtype": "bfloat16", "kv_cache_dtype": "bfloat16"},
    "ranks": [{"linear": [{"kernels": ["PlainKernel"], "quant_method": "UnquantizedLinearMethod"}]}],
}


def bf16(values) -> np.ndarray:
    """Round to nearest even, as 16 bits in uint16."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_capture(
    folder: Path,
    rows: np.ndarray,
    tokens: list[int],
    *,
    positions: list[int] | None = None,
    chunk_rows: int = 3,
    fingerprint: bool = False,
    receipt: dict | None = None,
    **changes: object,
) -> Path:
    """Write a `logits` capture of `rows` [n, V]; `changes` replace fields of its index."""
    positions = list(range(len(rows))) if positions is None else positions
    chunks = []
    for number, start in enumerate(range(0, len(rows), chunk_rows)):
        part, at = rows[start : start + chunk_rows], np.array(positions[start : start + chunk_rows], dtype=np.int64)
        tensors = {
            "rows": part,
            "positions": at,
            "target_ids": np.array([tokens[p + 1] for p in at], dtype=np.int64),
            "row_sha256": np.array([list(hashlib.sha256(row.tobytes()).digest()) for row in part], dtype=np.uint8),
        }
        if fingerprint:
            tensors |= _fingerprint(part)
        name = f"chunk-{number:05d}.safetensors"
        write_tensors(folder / name, tensors)
        chunks.append(
            {
                "file": name,
                "sha256": sha256_file(folder / name),
                "size_bytes": (folder / name).stat().st_size,
                "num_rows": len(part),
                "first_position": int(at[0]),
                "last_position": int(at[-1]),
            }
        )
    receipt_bytes = canonical_json(RECEIPT if receipt is None else receipt)
    write_atomic(folder / "receipt.json", receipt_bytes)
    index = {
        "schema_version": 1,
        "lock_digest": "1" * 64,
        "capture_digest": "2" * 64,
        "start": 0,
        "path": "prefill",
        "codec": "logits",
        "dtype": stored_dtype(rows),
        "num_rows": len(rows),
        "row_width": rows.shape[1],
        "vocab_size": rows.shape[1],
        "tokenizer_size": rows.shape[1],
        "rows_per_gemm": 64,
        "tokens_sha256": sha256_bytes(np.array(tokens, dtype="<i4").tobytes()),
        "num_tokens": len(tokens),
        "steps": [[0, len(tokens)]],
        "chunks": chunks,
        "head": None,
        "replay_probe": None,
        "non_finite_rows": int((~np.isfinite(to_float32(rows)).all(axis=1)).sum()),
        "sanity": {"positions": 2, "mean_nll": 1.5},
        "engine": {"vllm": "0.32.0", "torch": "2.13.0", "model_runner": "v1"},
        "receipt_sha256": sha256_bytes(receipt_bytes),
        "timings": {"capture": 0.25},
    }
    write_atomic(folder / "index.json", canonical_json(index | changes))
    return folder


def _fingerprint(rows: np.ndarray) -> dict[str, np.ndarray]:
    values = to_float32(rows)
    width = min(TOP_IDS, rows.shape[1])
    order = np.argsort(-values, axis=1, kind="stable")[:, :width]
    exact = values.astype(np.float64)
    best = exact.max(axis=1, keepdims=True)
    return {
        "logsumexp": (best + np.log(np.exp(exact - best).sum(axis=1, keepdims=True)))[:, 0],
        "top_ids": order.astype(np.int32),
        "top_logits": np.take_along_axis(rows, order, axis=1),
    }
