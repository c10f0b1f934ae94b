"""A small reader and writer of the safetensors format.

The public reader has no NumPy type for BF16 and maps whole files; here BF16 stays its 16 bits in uint16, rows are read
a few at a time, and a file from a stranger is refused before anything is allocated.
Format: 8 bytes little-endian header length, a JSON header, then the tensors back to back.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import InvalidInput, VerificationFailed
from suite.files import strict_json, write_atomic

_HEADER_LIMIT_BYTES = 1 << 20
_MOST_DIMENSIONS = 8
_DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype.name: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorEntry:
    """Where one tensor lies in its file."""

    dtype: str
    """Name of the format: BF16, F16, F32, F64, I32, I64 or U8."""
    shape: tuple[int, ...]
    offset_bytes: int
    """From the beginning of the file."""

    @property
    def row_bytes(self) -> int:
        """Size of one row, of the first dimension."""
        return tensor_bytes(self.dtype, self.shape[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorFile:
    """An opened safetensors file: its header is checked, its tensors are read on demand."""

    path: Path
    tensors: Mapping[str, TensorEntry]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Rows [start, stop) of the tensor `name` (BF16 as uint16).

        Raises:
            VerificationFailed: the file became shorter since it was opened.
        """
        entry = self.tensors[name]
        last = entry.shape[0] if stop is None else stop
        dtype = _DTYPES[entry.dtype]
        row_items = math.prod(entry.shape[1:])
        with self.path.open("rb") as stream:
            stream.seek(entry.offset_bytes + start * row_items * dtype.itemsize)
            flat = np.fromfile(stream, dtype=dtype, count=(last - start) * row_items)
        if flat.size != (last - start) * row_items:
            raise VerificationFailed(f"ends inside the tensor {name!r}", where=str(self.path), hint="capture again")
        rows: NDArray[Any] = flat.reshape((last - start, *entry.shape[1:]))
        return rows


def open_tensors(path: Path) -> TensorFile:
    """Read and check the header of a safetensors file: known dtypes, tensors back to back, nothing before or after.

    Raises:
        VerificationFailed: truncated, or not such a file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            prefix = stream.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            if not 2 <= length <= min(_HEADER_LIMIT_BYTES, size - 8):
                raise VerificationFailed("not a whole safetensors file", where=str(path), hint="capture again")
            header = strict_json(stream.read(length), where=str(path))
        tensors = tensor_entries(header, base=8 + length)
    except (InvalidInput, KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerificationFailed(f"bad safetensors header: {error}", where=str(path), hint="capture again") from error
    except OSError as error:
        raise VerificationFailed(f"cannot be read: {error.strerror}", where=str(path), hint="capture again") from error
    end = 8 + length
    for name, entry in sorted(tensors.items(), key=lambda item: item[1].offset_bytes):
        if entry.offset_bytes != end:
            raise VerificationFailed(f"the tensor {name!r} does not follow the one before", where=str(path))
        end += tensor_bytes(entry.dtype, entry.shape)
    if end != size:
        raise VerificationFailed(
            f"holds {size:,} bytes where its header speaks of {end:,}", where=str(path), hint="capture again"
        )
    return TensorFile(path=path, tensors=tensors)


def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Size of a tensor in bytes; `dtype` as the format names it."""
    return math.prod(shape) * _DTYPES[dtype].itemsize


def tensor_entries(header: Mapping[str, Any], *, base: int) -> dict[str, TensorEntry]:
    """The tensors that the JSON header of a file names, each checked by itself.

    Args:
        header: Hostile.
        base: Where the tensors begin in the file, in bytes.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: not such a header; a dtype that is not read is a KeyError.
    """
    entries = {}
    for name, item in header.items():
        if name == "__metadata__":
            continue
        start, stop = item["data_offsets"]
        shape = tuple(item["shape"])
        if len(shape) > _MOST_DIMENSIONS:
            raise ValueError(f"the tensor {name!a} has {len(shape):,} dimensions")
        numbers = (start, stop, *shape)
        if not all(type(number) is int and 0 <= number < 1 << 48 for number in numbers):
            raise ValueError(f"the tensor {name!a} has an impossible size")
        if stop - start != tensor_bytes(item["dtype"], shape):
            raise ValueError(f"the tensor {name!r} has {stop - start} bytes for the shape {list(shape)}")
        entries[name] = TensorEntry(dtype=item["dtype"], shape=shape, offset_bytes=base + start)
    return entries


def write_tensors(
    path: Path, tensors: Mapping[str, NDArray[Any]], *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write `tensors` atomically, in the given order; uint16 arrays are written as BF16.

    Raises:
        InvalidInput: an array of another dtype.
        MissingPrerequisite: the disk is full.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    pieces = []
    offset = 0
    for name, array in tensors.items():
        if array.dtype.name not in _NAMES:
            raise InvalidInput(f"the tensor {name!r} has dtype {array.dtype}, which is not written", where=str(path))
        kind = _NAMES[array.dtype.name]
        piece = np.ascontiguousarray(array, dtype=_DTYPES[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(piece)]}
        offset += len(piece)
        pieces.append(piece)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_atomic(path, b"".join([struct.pack("<Q", len(text)), text, *pieces]))
