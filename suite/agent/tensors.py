"""Write safetensors files piece by piece: hashed on the way, and no library's own temporary file beside them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from suite.agent.rows import use_all_cores

_NAMES = {
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
}


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], *, metadata: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """Write CPU tensors in the given order and flush them to the disk.

    Returns:
        SHA-256 of the file in lower-case hex, and its size in bytes.

    Raises:
        KeyError: a dtype that is not written.
        OSError: the disk is full, for instance; the caller removes the file.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pieces: list[bytes | memoryview] = [len(text).to_bytes(8, "little"), text, *map(_bytes, tensors.values())]
    with ThreadPoolExecutor(1, "suite-hash", initializer=use_all_cores) as beside, path.open("wb") as stream:
        digest = beside.submit(_sha256, pieces)
        for piece in pieces:
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())
        return digest.result(), sum(map(len, pieces))


def _sha256(pieces: list[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return memoryview(flat.numpy())
