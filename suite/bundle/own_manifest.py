"""The manifest in a bundle against the lock that was made of it: who reads only one of the two must not be misled."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from suite.errors import InvalidInput, VerificationFailed
from suite.manifest.diff import factors
from suite.manifest.lock import Lock
from suite.manifest.schema import Manifest
from suite.manifest.strict_yaml import MAX_FILE_BYTES, parse_text
from suite.records import first_problem

MANIFEST_NAME = "manifest.yaml"

_EQUAL = ("name", "role", "repeats", "serve", "branches", "replay")
_MODEL = ("model", "weight_quantisation")


def parse_manifest(data: bytes, *, where: str) -> Manifest:
    """The manifest of a bundle: whole, without `extends`, and no file that it names is looked at.

    Raises:
        VerificationFailed: not strict YAML, or no manifest.
    """
    try:
        if len(data) > MAX_FILE_BYTES:
            raise VerificationFailed(f"has {len(data):,} bytes; a manifest has at most {MAX_FILE_BYTES:,}", where=where)
        value = parse_text(data.decode(), Path(where)).value
        # Strict JSON mode, as for every manifest: lists become tuples, and nothing else is coerced.
        return Manifest.model_validate_json(json.dumps(value))
    except UnicodeDecodeError as error:
        raise VerificationFailed("not UTF-8 text", where=where) from error
    except InvalidInput as error:
        raise VerificationFailed(f"no manifest: {error.message}", where=where) from error
    except ValidationError as error:
        raise VerificationFailed(f"no manifest: {first_problem(error)}", where=where) from error


def check_manifest(data: bytes, lock: Lock, *, where: str = MANIFEST_NAME) -> str:
    """Check that `lock` is one of this manifest; returns one line on what holds.

    What only resolving shows (files by hash, token ids, the numbers of a range by words) is in the lock alone.

    Raises:
        VerificationFailed: no manifest, or the first thing in which the two differ.
    """
    manifest = parse_manifest(data, where=where)
    for name in _EQUAL:
        if getattr(manifest, name) != getattr(lock, name):
            raise VerificationFailed(f"{name} is not the lock's", where=where)
    comparison = factors(manifest, lock)
    # A model named by a local path has no other name in a lock than its files' hashes.
    local = _MODEL if manifest.model.path is not None else ()
    for item in (*comparison.factors, *comparison.consequent):
        if item.name not in local:
            raise VerificationFailed(f"{item.name}: the manifest says {item.a}, the lock {item.b}", where=where)
    for reason in comparison.not_comparable:
        raise VerificationFailed(f"not the lock's: {reason}", where=where)
    if isinstance(manifest.capture.ranges, tuple) and manifest.capture.ranges != lock.capture.ranges:
        raise VerificationFailed("capture.ranges are not the lock's", where=where)
    for key, pinned, locked in (
        ("capture.chunk_rows", manifest.capture.chunk_rows, lock.capture.chunk_rows),
        ("capture.codec", manifest.capture.codec, lock.capture.codec),
        ("model.tokenizer_sha256", manifest.model.tokenizer_sha256, lock.tokenizer_sha256),
        ("model.chat_template_sha256", manifest.model.chat_template_sha256, lock.chat_template_sha256),
        ("workload.sha256", manifest.workload.sha256, lock.workload.digest),
    ):
        if pinned is not None and pinned != locked:
            raise VerificationFailed(f"{key}: the manifest says {pinned}, the lock {locked}", where=where)
    return "the lock is one of this manifest"
