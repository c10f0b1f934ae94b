"""What must hold of a pack's members beyond their hashes, before they enter the capture store."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.capture.index import CaptureIndex
from suite.capture.store import RECEIPT_NAME, Capture, open_capture
from suite.capture.tensors import open_tensors
from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_bytes, strict_json
from suite.manifest.environment import refusal
from suite.manifest.lock import Lock, parse_lock
from suite.manifest.positions import probe_positions
from suite.observer import Observer
from suite.reference.schema import PackRecord
from suite.reference.store import LOCK_NAME

_HEAD_DTYPES = ("bfloat16", "float16", "float32")
_HEAD_KEYS = {"vocab_size", "scale", "soft_cap", "dtype"}


def check_pack(
    folder: Path, record: PackRecord, *, lock_bytes: bytes, head_path: Callable[[str], Path], observer: Observer
) -> tuple[Lock, Capture]:
    """Check members whose hashes are those of the record.

    Args:
        folder: Holds index, receipt and chunks.
        record: The pack's record.
        lock_bytes: The member `lock.json`.
        head_path: Where a head file lies, by its SHA-256.
        observer: Told of progress.

    Raises:
        VerificationFailed: lock, index, receipt, heads and chunks do not belong together, or one is malformed.
    """
    try:
        lock = parse_lock(lock_bytes, where=LOCK_NAME)
        capture = open_capture(folder)
        strict_json((folder / RECEIPT_NAME).read_bytes(), where=RECEIPT_NAME)
    except InvalidInput as error:
        raise VerificationFailed(error.message, where=error.where, hint=error.hint) from error
    index = capture.index
    _check_record(record, lock, index)
    _check_members(record, index)
    for name, value in lock.environment.items():
        if why := refusal(name, value):
            raise VerificationFailed(f"the environment sets {name!a}: {why}", where=LOCK_NAME)
    if index.codec == "hidden":
        check_heads(index, head_path)
    if index.non_finite_rows:
        raise VerificationFailed(f"{index.non_finite_rows} rows are not finite; such a run is no reference")
    capture.verify(observer=observer)
    _check_positions(lock, capture)
    return lock, capture


def _check_record(record: PackRecord, lock: Lock, index: CaptureIndex) -> None:
    claims = (
        ("reference_lock_digest", record.reference_lock_digest, "lock.json", lock.digest),
        ("capture_digest", record.capture_digest, "lock.json", lock.capture_digest),
        ("capture_digest", record.capture_digest, "index.json", index.capture_digest),
        ("tokens_sha256", record.tokens_sha256, "lock.json", lock.workload.tokens_sha256),
        ("tokens_sha256", record.tokens_sha256, "index.json", index.tokens_sha256),
        ("num_rows", record.num_rows, "index.json", index.num_rows),
        ("start", record.start, "index.json", index.start),
        ("receipt.json", record.member("receipt.json").sha256, "index.json", index.receipt_sha256),
        ("num_tokens", lock.workload.num_tokens, "index.json", index.num_tokens),
        ("path", lock.capture.path, "index.json", index.path),
    )
    for key, claimed, place, found in claims:
        if claimed != found:
            raise VerificationFailed(f"{key}: the pack says {claimed}, its {place} {found}")


def _check_members(record: PackRecord, index: CaptureIndex) -> None:
    heads = index.head.sha256s if index.head is not None and index.codec == "hidden" else ()
    wanted = {chunk.file: chunk.sha256 for chunk in index.chunks}
    wanted |= {f"heads/{sha256}.safetensors": sha256 for sha256 in heads}
    listed = {m.path: m.sha256 for m in record.members if m.path.endswith(".safetensors")}
    listed |= {head.path: head.sha256 for head in record.heads}
    for path in sorted(wanted.keys() | listed.keys()):
        if path not in listed:
            raise VerificationFailed(f"{path} is named by index.json and not in the pack")
        if path not in wanted:
            raise VerificationFailed(f"{path} is in the pack and not named by index.json")
        if listed[path] != wanted[path]:
            raise VerificationFailed(f"{path} is not the file that index.json names")


def check_heads(index: CaptureIndex, head_path: Callable[[str], Path]) -> dict[str, Any]:
    """Check the head files of a `hidden` capture, whose hashes are right already.

    Returns:
        `dtype` (name), `scale` and `soft_cap` (number or None) of the projection.

    Raises:
        VerificationFailed: one is no head, or not one of this capture's shape.
    """
    assert index.head is not None
    rows = 0
    arithmetic: dict[str, Any] = {}
    for sha256 in index.head.sha256s:
        path, where = head_path(sha256), f"heads/{sha256[:12]}"
        tensors = open_tensors(path).tensors
        weight = tensors.get("weight")
        if weight is None or tensors.keys() - {"weight", "bias"}:
            raise VerificationFailed("holds other tensors than a head's weight and bias", where=where)
        if len(weight.shape) != 2 or weight.shape[1] != index.row_width or weight.dtype not in ("BF16", "F16", "F32"):
            raise VerificationFailed(
                f"the weight is {weight.dtype} {list(weight.shape)}, not [n, {index.row_width}]", where=where
            )
        if "bias" in tensors and tensors["bias"].shape != (weight.shape[0],):
            raise VerificationFailed(f"a bias of shape {list(tensors['bias'].shape)}", where=where)
        found = _check_head_metadata(path, index, where)
        if arithmetic and found != arithmetic:
            raise VerificationFailed("its metadata is not that of the shard before", where=where)
        arithmetic = found
        rows += weight.shape[0]
    if rows < index.vocab_size:
        raise VerificationFailed(f"the heads have {rows} rows for a vocabulary of {index.vocab_size}")
    return arithmetic


def _check_head_metadata(path: Path, index: CaptureIndex, where: str) -> dict[str, Any]:
    """The agent reads these values; it must meet no other than those an agent writes."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        metadata = strict_json(stream.read(length), where=where).get("__metadata__")
    if not isinstance(metadata, dict) or metadata.keys() != _HEAD_KEYS:
        raise VerificationFailed(f"its metadata does not hold exactly {', '.join(sorted(_HEAD_KEYS))}", where=where)
    try:
        values = {key: strict_json(str(text).encode(), where=where) for key, text in metadata.items()}
    except InvalidInput as error:
        raise VerificationFailed(f"its metadata is no JSON: {error.message}", where=where) from error
    scale, soft_cap = values["scale"], values["soft_cap"]
    if type(values["vocab_size"]) is not int or values["vocab_size"] != index.vocab_size:
        raise VerificationFailed(f"vocab_size is {values['vocab_size']!r}, not {index.vocab_size}", where=where)
    if values["dtype"] not in _HEAD_DTYPES:
        raise VerificationFailed(f"dtype is {values['dtype']!a}, none of {', '.join(_HEAD_DTYPES)}", where=where)
    if type(scale) not in (int, float) or not math.isfinite(scale) or scale <= 0:
        raise VerificationFailed(f"scale is {scale!r}, no positive number", where=where)
    if soft_cap is not None and (type(soft_cap) not in (int, float) or not math.isfinite(soft_cap) or soft_cap <= 0):
        raise VerificationFailed(f"soft_cap is {soft_cap!r}, no positive number", where=where)
    return {"dtype": values["dtype"], "scale": scale, "soft_cap": soft_cap}


def _check_positions(lock: Lock, capture: Capture) -> None:
    policy = lock.capture
    expected = probe_positions(
        path=policy.path, stride=policy.stride, ranges=policy.ranges, num_tokens=lock.workload.num_tokens
    )
    found = capture.probes().positions.tolist()
    if found != expected:
        pairs = zip(found, expected, strict=False)
        at = next((ours for ours, theirs in pairs if ours != theirs), "the end")
        raise VerificationFailed(f"its positions are not those of the lock's capture policy, first at {at}")


def digest_of(record_bytes: bytes) -> str:
    """The pack's digest: SHA-256 of `pack.json`, which names every other byte. A signature is over this."""
    return sha256_bytes(record_bytes)
