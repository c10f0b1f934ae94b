"""Two checkpoints tensor by tensor: which ones hold the same bytes. Files are streamed; no model is ever loaded."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import strict_json
from suite.observer import Observer

_HEADER_LIMIT_BYTES = 100 << 20
_BLOCK_BYTES = 1 << 22
_WORKERS = 4
GROUPS = ("language", "vision", "MTP", "head", "scales")
# What a quantiser writes beside the weights: scales, zero points, shapes, orders.
_SCALES = re.compile(
    r"(^|[._])(scales?|weight_scale_inv|[a-z_]*scale(_\d+)?|[a-z_]*zeros?|[a-z_]*zero_points?|g_idx|weight_shape|absmax"
    r"|quant_map|nested_absmax|nested_quant_map|quant_state[\w.]*)$"
)
_VISION = re.compile(
    r"(^|\.)(visual|vision\w*|vit|image\w*|multi_modal_projector|mm_projector|audio\w*|video\w*)(\.|$)"
)
_MTP = re.compile(r"(^|\.)(mtp\w*|nextn\w*|eh_proj|medusa\w*)(\.|$)")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)(\.|$)|^output\.weight$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """One tensor of a checkpoint."""

    file: Path
    dtype: str
    """As the safetensors header names it."""
    shape: tuple[int, ...]
    offset_bytes: int
    """From the beginning of the file."""
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """What became of the tensors of one kind."""

    name: str
    identical: tuple[str, ...] = ()
    """Same name, dtype, shape and bytes."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Same dtype, shape and bytes under another name."""
    changed: tuple[str, ...] = ()
    """Same name, dtype and shape, other bytes."""
    reshaped: tuple[str, ...] = ()
    """Same name, another dtype or shape."""
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Tensors of this kind in either checkpoint, each counted once."""
        parts = (self.identical, self.renamed, self.changed, self.reshaped, self.only_a, self.only_b)
        return sum(len(part) for part in parts)

    @property
    def same(self) -> int:
        """Tensors whose bytes are the same in both."""
        return len(self.identical) + len(self.renamed)


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsDiff:
    """How two checkpoints relate."""

    groups: tuple[Group, ...]
    """In the order of `GROUPS`; kinds that neither has are left out."""
    hashes_a: Mapping[str, str]
    """SHA-256 of each tensor's bytes."""
    hashes_b: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "schema_version": 1,
            "groups": [
                {
                    "name": group.name,
                    "tensors": group.total,
                    "same": group.same,
                    "identical": list(group.identical),
                    "renamed": [list(pair) for pair in group.renamed],
                    "changed": list(group.changed),
                    "reshaped": list(group.reshaped),
                    "only_a": list(group.only_a),
                    "only_b": list(group.only_b),
                }
                for group in self.groups
            ],
            "a": dict(self.hashes_a),
            "b": dict(self.hashes_b),
        }


def group_of(name: str) -> str:
    """The kind of a tensor, by its name: one of `GROUPS`."""
    if _SCALES.search(name):
        return "scales"
    if _MTP.search(name):
        return "MTP"
    if _VISION.search(name):
        return "vision"
    return "head" if _HEAD.search(name) else "language"


def diff_weights(a: Path, b: Path, *, observer: Observer) -> WeightsDiff:
    """Compare two checkpoints: folders with safetensors files, or single files.

    Raises:
        MissingPrerequisite: no such folder or file, or no safetensors file in it.
        InvalidInput: a file is not in the safetensors format, or a tensor's name stands in two of them.
    """
    left, right = checkpoint_tensors(a), checkpoint_tensors(b)
    total = sum(tensor.size_bytes for tensor in (*left.values(), *right.values()))
    observer.phase("hash tensors", total=total >> 20, unit="MiB")
    hashes_a, hashes_b = _hashes(left, observer), _hashes(right, observer)
    observer.phase("")
    return WeightsDiff(
        groups=tuple(_groups(left, right, hashes_a, hashes_b)),
        hashes_a=hashes_a,
        hashes_b=hashes_b,
    )


def checkpoint_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a folder or file, by name in order of names.

    Raises:
        MissingPrerequisite: nothing there.
        InvalidInput: not safetensors, or one name twice.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if not files:
        raise MissingPrerequisite(
            "no safetensors file", where=str(path), hint="name a checkpoint's folder, or one safetensors file"
        )
    found: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in _header(file):
            if name in found:
                raise InvalidInput(
                    f"the tensor {name!r} stands in {found[name].file.name} too",
                    where=str(file),
                    hint="remove the files that the index does not name",
                )
            found[name] = tensor
    return dict(sorted(found.items()))


def _header(file: Path) -> Iterator[tuple[str, Tensor]]:
    where = str(file)
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > min(_HEADER_LIMIT_BYTES, size - 8):
                raise InvalidInput("not a safetensors file, or a truncated one", where=where, hint="fetch it again")
            value = strict_json(stream.read(length), where=where)
    except OSError as error:
        raise MissingPrerequisite(f"cannot be read: {error.strerror}", where=where, hint="make it readable") from error
    if not isinstance(value, dict):
        raise InvalidInput("not a safetensors file: its header is no object", where=where)
    for name, entry in value.items():
        if name != "__metadata__":
            yield name, _tensor(entry, file, 8 + length, size, f"{where}: {name}")


def _tensor(entry: Any, file: Path, base: int, size: int, where: str) -> Tensor:
    try:
        begin, end = entry["data_offsets"]
        shape, dtype = tuple(entry["shape"]), entry["dtype"]
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidInput("not a tensor of the safetensors format", where=where) from error
    numbers = (begin, end, *shape)
    if not all(type(n) is int and n >= 0 for n in numbers) or not isinstance(dtype, str) or begin > end:
        raise InvalidInput("not a tensor of the safetensors format", where=where)
    if base + end > size:
        raise InvalidInput("ends beyond its file: the file is truncated", where=where, hint="fetch it again")
    return Tensor(file=file, dtype=dtype, shape=shape, offset_bytes=base + begin, size_bytes=end - begin)


def _hashes(tensors: Mapping[str, Tensor], observer: Observer) -> dict[str, str]:
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        digests = {}
        # Hashes come back in the order of names, so that progress is told by this thread alone.
        for (name, tensor), digest in zip(tensors.items(), pool.map(_sha256, tensors.values()), strict=True):
            digests[name] = digest
            observer.advance(tensor.size_bytes >> 20)
    return digests


def _sha256(tensor: Tensor) -> str:
    digest = hashlib.sha256()
    left = tensor.size_bytes
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.offset_bytes)
        while left and (block := stream.read(min(left, _BLOCK_BYTES))):
            digest.update(block)
            left -= len(block)
    if left:
        raise InvalidInput("became shorter while it was read", where=str(tensor.file), hint="run it again")
    return digest.hexdigest()


def _groups(
    left: Mapping[str, Tensor],
    right: Mapping[str, Tensor],
    hashes_a: Mapping[str, str],
    hashes_b: Mapping[str, str],
) -> Iterator[Group]:
    found: dict[str, dict[str, list[Any]]] = {name: {} for name in GROUPS}

    def put(name: str, part: str, value: Any) -> None:
        found[group_of(name)].setdefault(part, []).append(value)

    for name in sorted(left.keys() & right.keys()):
        a, b = left[name], right[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            put(name, "reshaped", name)
        else:
            put(name, "identical" if hashes_a[name] == hashes_b[name] else "changed", name)
    moved = _moved(left, right, hashes_a, hashes_b)
    for name in sorted(left.keys() - right.keys()):
        if name in moved:
            put(name, "renamed", (name, moved[name]))
        else:
            put(name, "only_a", name)
    for name in sorted(right.keys() - left.keys() - set(moved.values())):
        put(name, "only_b", name)
    for name, parts in found.items():
        if parts:
            yield Group(name=name, **{part: tuple(values) for part, values in parts.items()})


def _moved(
    left: Mapping[str, Tensor], right: Mapping[str, Tensor], hashes_a: Mapping[str, str], hashes_b: Mapping[str, str]
) -> dict[str, str]:
    """Names in A to names in B that hold the same bytes; tensors of equal bytes are paired in order of names."""

    def content(tensor: Tensor, digest: str) -> tuple[str, tuple[int, ...], str]:
        return tensor.dtype, tensor.shape, digest

    waiting: dict[tuple[str, tuple[int, ...], str], list[str]] = {}
    for name in sorted(right.keys() - left.keys(), reverse=True):
        waiting.setdefault(content(right[name], hashes_b[name]), []).append(name)
    moved = {}
    for name in sorted(left.keys() - right.keys()):
        if others := waiting.get(content(left[name], hashes_a[name])):
            moved[name] = others.pop()
    return moved
