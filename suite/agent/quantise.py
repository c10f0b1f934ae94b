"""Quantise a BF16 checkpoint by rounding to nearest: a fixture of damage, not of quality.

Nothing is calibrated and no outlier is treated, so these checkpoints say what plain rounding does and nothing about a
published one. Runs as a script (`python -P quantise.py SCHEME SOURCE FOLDER`) with the standard library, torch and
safetensors, one tensor in memory at a time. The result is in the compressed-tensors format, which vLLM reads.

Formulas, for a weight W [out, in] split into groups of g input columns (a whole row where the scheme has no group):

- scale      s = BF16(max |W| / Q), one per row or per row and group; 1 where the group is all zero.
             Q = 127 (8-bit integer), 7 (4-bit integer), 448 (FP8 E4M3, its largest finite number)
- integer    q = clamp(round_half_even(W / s), -Q - 1, Q)
- FP8        q = E4M3(clamp(W / s, -448, 448))
- packed     32 / bits values to an int32, q + 2^(bits-1), the first value in the lowest bits

W / s is formed in FP32 with the scale as stored, so that the value served, q * s, is the nearest that this scale
allows. Embedding, head and norms stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SCHEMES = "w8a8-int8, w8a8-fp8, w8a16, w4a16, w8a16-gN, w4a16-gN (N input columns share a scale)"
_SCHEME = re.compile(r"(?:w8a8-(?P<kind>int8|fp8)|w(?P<bits>4|8)a16(?:-g(?P<group>[1-9]\d{0,4}))?)")
_QUANTISED = re.compile(r"\.[a-z0-9_]*_proj\.weight$")
_DTYPE_NAMES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "I8": "int8", "F8_E4M3": "float8_e4m3fn"}
_DTYPE_NAMES |= {"I32": "int32", "I64": "int64"}
_SIZES_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I8": 1, "F8_E4M3": 1, "I32": 4, "I64": 8}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """How weights, and activations if at all, are stored."""

    bits: int
    """Bits of a stored weight, 4 or 8."""
    is_float: bool
    """FP8 E4M3 instead of an integer."""
    quantised_activations: bool
    """Activations are quantised per token while the model runs."""
    group_columns: int | None
    """Input columns that share a scale; None: the whole row."""

    @property
    def packed(self) -> bool:
        """Weights are packed into int32 words."""
        return not self.quantised_activations

    @property
    def largest(self) -> int:
        """The number Q that a group's largest magnitude is mapped to."""
        return 448 if self.is_float else 2 ** (self.bits - 1) - 1

    @property
    def format(self) -> str:
        """Name of the layout in compressed-tensors."""
        return "pack-quantized" if self.packed else "float-quantized" if self.is_float else "int-quantized"


def parse_scheme(name: str) -> Scheme:
    """Read a scheme's name.

    Raises:
        ValueError: not one of `SCHEMES`.
    """
    match = _SCHEME.fullmatch(name)
    if match is None:
        raise ValueError(f"unknown scheme {name!r}; known: {SCHEMES}")
    if match["kind"]:
        return Scheme(bits=8, is_float=match["kind"] == "fp8", quantised_activations=True, group_columns=None)
    group = int(match["group"]) if match["group"] else None
    return Scheme(bits=int(match["bits"]), is_float=False, quantised_activations=False, group_columns=group)


def quantisation_config(scheme: Scheme) -> dict[str, Any]:
    """The `quantization_config` entry of config.json, as compressed-tensors defines it."""
    kind = "float" if scheme.is_float else "int"
    common = {"num_bits": scheme.bits, "type": kind, "symmetric": True}
    weights = common | {
        "strategy": "channel" if scheme.group_columns is None else "group",
        "group_size": scheme.group_columns,
        "dynamic": False,
    }
    activations = common | {"strategy": "token", "dynamic": True} if scheme.quantised_activations else None
    group = {
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": activations,
        "output_activations": None,
        "format": scheme.format,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": scheme.format,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }


def is_quantised(name: str, shape: list[int]) -> bool:
    """Whether a tensor is a linear layer's weight: two dimensions and a name like `…q_proj.weight`."""
    return len(shape) == 2 and _QUANTISED.search(name) is not None


def layout(name: str, shape: list[int], scheme: Scheme) -> list[tuple[str, str, list[int]]]:
    """(name, safetensors dtype, shape) of what one linear weight becomes.

    Raises:
        ValueError: the input columns do not divide into groups or into whole int32 words.
    """
    rows, columns = shape
    stem = name.removesuffix("weight")
    if not scheme.packed:
        return [(name, "F8_E4M3" if scheme.is_float else "I8", shape), (f"{stem}weight_scale", "BF16", [rows, 1])]
    group_columns = scheme.group_columns or columns
    if columns % group_columns or columns % (32 // scheme.bits):
        raise ValueError(f"{name}: {columns} input columns do not divide into groups of {group_columns}")
    words = columns * scheme.bits // 32
    return [
        (f"{stem}weight_packed", "I32", [rows, words]),
        (f"{stem}weight_scale", "BF16", [rows, columns // group_columns]),
        (f"{stem}weight_shape", "I64", [2]),
    ]


def quantise(weight: torch.Tensor, scheme: Scheme) -> list[torch.Tensor]:
    """Round one weight [out, in] to nearest; the tensors come in the order of `layout`."""
    import torch

    rows, columns = weight.shape
    grouped = weight.float().reshape(rows, -1, scheme.group_columns or columns)
    scale = (grouped.abs().amax(dim=2, keepdim=True) / scheme.largest).to(torch.bfloat16)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    scaled = (grouped / scale.float()).reshape(rows, columns)
    stored_scale = scale.squeeze(2)
    if scheme.is_float:
        return [scaled.clamp(-scheme.largest, scheme.largest).to(torch.float8_e4m3fn), stored_scale]
    rounded = scaled.round().clamp(-scheme.largest - 1, scheme.largest)
    if not scheme.packed:
        return [rounded.to(torch.int8), stored_scale]
    return [pack(rounded.to(torch.int64), scheme.bits), stored_scale, torch.tensor([rows, columns], dtype=torch.int64)]


def pack(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack signed int64 values [out, in] into int32 words [out, in * bits / 32], the first value in the lowest bits."""
    import torch

    rows, columns = values.shape
    per_word = 32 // bits
    unsigned = (values + 2 ** (bits - 1)).reshape(rows, columns // per_word, per_word)
    shifts = torch.arange(per_word, dtype=torch.int64) * bits
    words = (unsigned << shifts).sum(dim=2)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def write_streamed(
    path: Path, plan: list[tuple[str, str, list[int]]], tensors: Iterator[tuple[str, torch.Tensor]]
) -> None:
    """Write a safetensors file whose names, dtypes and shapes are known, one tensor at a time.

    Raises:
        ValueError: a tensor is not what the plan says.
    """
    import torch

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dtype, shape in plan:
        size_bytes = _SIZES_BYTES[dtype]
        for length in shape:
            size_bytes *= length
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size_bytes]}
        offset += size_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for (name, dtype, shape), (got_name, tensor) in zip(plan, tensors, strict=True):
            expected = (name, shape, getattr(torch, _DTYPE_NAMES[dtype]))
            if (got_name, list(tensor.shape), tensor.dtype) != expected:
                raise ValueError(f"{got_name}: {tensor.dtype} {list(tensor.shape)}, planned {dtype} {shape}")
            stream.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def quantise_file(source: Path, target: Path, scheme: Scheme) -> list[tuple[str, str, list[int]]]:
    """Quantise one safetensors file into another and return what it holds, in order."""
    from safetensors import safe_open

    with safe_open(str(source), framework="pt") as opened:
        names = sorted(opened.keys())
        slices = {name: opened.get_slice(name) for name in names}
        shapes = {name: slices[name].get_shape() for name in names}
        parts = {
            name: layout(name, shapes[name], scheme)
            if is_quantised(name, shapes[name])
            else [(name, slices[name].get_dtype(), shapes[name])]
            for name in names
        }

        def tensors() -> Iterator[tuple[str, torch.Tensor]]:
            for name in names:
                tensor = opened.get_tensor(name)
                done = quantise(tensor, scheme) if is_quantised(name, shapes[name]) else [tensor]
                yield from zip((part[0] for part in parts[name]), done, strict=True)

        plan = [part for name in names for part in parts[name]]
        write_streamed(target, plan, tensors())
    return plan


def quantise_folder(scheme_name: str, source: Path, folder: Path) -> int:
    """Quantise every safetensors file of a checkpoint folder and copy the rest; returns the number of linear layers.

    Raises:
        ValueError: unknown scheme, no linear weights, already quantised, or sizes that the scheme cannot hold.
    """
    scheme = parse_scheme(scheme_name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    if "quantization_config" in config:
        raise ValueError(f"{source} is quantised already")
    weights = sorted(source.glob("*.safetensors"))
    weight_map: dict[str, str] = {}
    total_bytes = 0
    num_layers = 0
    for path in weights:
        for name, dtype, shape in quantise_file(path, folder / path.name, scheme):
            weight_map[name] = path.name
            num_layers += name.endswith("_proj.weight_scale")
            size_bytes = _SIZES_BYTES[dtype]
            for length in shape:
                size_bytes *= length
            total_bytes += size_bytes
    if not num_layers:
        raise ValueError(f"{source} holds no linear weights to quantise")
    index_name = "model.safetensors.index.json"
    for path in sorted(source.iterdir()):
        if path.is_file() and path not in weights and path.name not in ("config.json", index_name):
            shutil.copyfile(path, folder / path.name)
    if (source / index_name).exists():
        _write_json(folder / index_name, {"metadata": {"total_size": total_bytes}, "weight_map": weight_map})
    _write_json(folder / "config.json", config | {"quantization_config": quantisation_config(scheme)})
    return num_layers


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Parse the three arguments and quantise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scheme", help=SCHEMES)
    parser.add_argument("source", type=Path, help="BF16 checkpoint folder")
    parser.add_argument("folder", type=Path, help="folder to write; must exist")
    arguments = parser.parse_args()
    quantise_folder(arguments.scheme, arguments.source, arguments.folder)


if __name__ == "__main__":
    main()
