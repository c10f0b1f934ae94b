"""Base files made of chosen logits, written here by a scalar program that shares nothing with the one under test."""

import math
import struct
from pathlib import Path

import numpy as np

F = np.float32


def scalar_row(logits, clip: int = 16) -> tuple[F, F, list[int]]:
    """Scale, floor and codes of one row, number by number in float32."""
    values = [F(z) for z in logits]
    top = max(values)
    low = max(min(values), F(top - F(clip)))
    total = F(math.log(math.fsum(math.exp(float(F(z - top))) for z in values)))
    floor = F(F(low - top) - total)
    scale = F(F(top - low) / F(65535))
    if not scale >= np.finfo(F).tiny:
        return F(0), floor, [0] * len(values)
    inverse = F(F(1) / scale)
    codes = [round(float(F(inverse * F(z - low)))) if z > low else 0 for z in values]  # half to even
    return scale, floor, [min(code, 65535) for code in codes]


def kld_bytes(logits: np.ndarray, tokens: list[int], *, context: int, clip: int = 16, pad: int = 0) -> bytes:
    """A file of `logits` [rows, V] and all its `tokens`."""
    vocab = logits.shape[1]
    data = b"_logits_" + struct.pack("<3i", context, vocab, len(tokens) // context)
    data += struct.pack(f"<{len(tokens)}i", *tokens)
    for row in logits:
        scale, floor, codes = scalar_row(row, clip)
        data += struct.pack("<2f", scale, floor)
        data += struct.pack(f"<{len(codes)}H", *codes) + (struct.pack("<H", pad) if vocab % 2 else b"")
    return data


def write_kld(
    path: Path, *, seed: int = 0, context: int = 8, chunks: int = 3, vocab: int = 11, clip: int = 16, **more
) -> Path:
    """A file of random logits that reach below the clip; `tokens_seed` and `pad` as given."""
    random = np.random.default_rng(seed)
    rows = (context - 1 - context // 2) * chunks
    logits = random.normal(0, 9, (rows, vocab)).astype(np.float32)
    tokens = np.random.default_rng(more.pop("tokens_seed", 1)).integers(0, vocab, context * chunks).tolist()
    path.write_bytes(kld_bytes(logits, tokens, context=context, clip=clip, **more))
    return path
