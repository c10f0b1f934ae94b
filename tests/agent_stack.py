"""Starts of the agent as a process, with the real vLLM or with the fake engine, for tests of several packages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from suite.capture.store import Capture, open_capture
from suite.observer import Observer, SilentObserver
from suite.runtime.interface import AgentCall, Folder
from suite.runtime.process import ProcessRuntime
from suite.runtime.staging import stage_agent

ROOT = Path(__file__).parent.parent
FAKE_VLLM = ROOT / "tests" / "fake_vllm"
FAKE_TRITON = ROOT / "tests" / "fake_triton"

CPU_ENGINE: dict[str, Any] = {
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
}
CPU_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
CPU_EXPECT: dict[str, Any] = {
    "attention_backend": "CPU_ATTN",
    "kv_cache_dtype": "bfloat16",
    "dtype": "bfloat16",
    "max_num_batched_tokens": 512,
    "threads": 1,
    "device_kind": "cpu",
}
FLOAT32_ENGINE: dict[str, Any] = CPU_ENGINE | {"dtype": "float32", "kv_cache_dtype": "auto"}
"""What every processor computes fast, and none with kernels that another lacks; its rows are kept as logits."""
FLOAT32_EXPECT: dict[str, Any] = CPU_EXPECT | {"dtype": "float32", "kv_cache_dtype": "float32"}
FAKE_ENGINE: dict[str, Any] = {"max_num_batched_tokens": 32, "max_model_len": 400}


def write_tokens(folder: Path, ids: list[int]) -> Path:
    """The ids as the agent reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "tokens.npy", np.array(ids, dtype=np.int32))
    return folder / "tokens.npy"


def job(tokens: Path, **changes: Any) -> dict[str, Any]:
    """A capture request without its paths."""
    ids = np.load(tokens)
    base = {
        "schema_version": 1,
        "tokens_sha256": hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest(),
        "engine": CPU_ENGINE,
        "path": "prefill",
        "stride": 1,
        "ranges": [],
        "codec": "hidden",
        "rows_per_gemm": 64,
        "chunk_rows": 64,
        "expect": CPU_EXPECT,
        "sanity_positions": 64,
        "sanity_max_nll": None,
        "lock_digest": "1" * 64,
        "capture_digest": "2" * 64,
        "start": 0,
    }
    return base | changes


def fake_job(tokens: Path, **changes: Any) -> dict[str, Any]:
    """A request for the fake engine, whose rows mean nothing."""
    return job(
        tokens,
        **{
            "engine": FAKE_ENGINE,
            "expect": {"max_num_batched_tokens": 32},
            "rows_per_gemm": 8,
            "chunk_rows": 16,
            "sanity_positions": 8,
            "sanity_max_nll": 1000.0,
        }
        | changes,
    )


class Stack:
    """A way to start the agent again and again."""

    def __init__(self, python: Path, home: Path, model: Path, *, fake: bool = False) -> None:
        self.python = python
        self.home = home
        self.model = model
        self.fake = fake
        self.heads = home / "captures" / "heads"

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The stack's variables; with the fake engine its folder comes before the agent's."""
        if not self.fake:
            return CPU_ENVIRONMENT | dict(extra)
        return {"PYTHONPATH": f"{FAKE_VLLM}{os.pathsep}{stage_agent(self.home)}", "OMP_NUM_THREADS": "1"} | dict(extra)

    def call(
        self,
        out: Path,
        tokens: Path,
        request: dict[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        observer: Observer | None = None,
        runtime: ProcessRuntime | None = None,
    ) -> Capture:
        """One start; raises what the runtime raises."""
        call = AgentCall(
            command="capture",
            folders={
                "out": Folder(host=out, writable=True),
                "heads": Folder(host=self.heads, writable=True),
                "model": Folder(host=self.model),
                "inputs": Folder(host=tokens.parent),
            },
            request=lambda paths: (
                request
                | {"out": paths["out"], "heads": paths["heads"], "model": paths["model"]}
                | {"tokens": f"{paths['inputs']}/{tokens.name}"}
            ),
            environment=self.environment(environment or {}),
        )
        runtime = runtime or ProcessRuntime(self.python, home=self.home)
        runtime.call(call, observer or SilentObserver())
        return open_capture(out)


def chunk_hashes(capture: Capture) -> list[str]:
    """SHA-256 of every chunk, in order."""
    return [chunk.sha256 for chunk in capture.index.chunks]


def leftovers(folder: Path) -> list[str]:
    """Names of temporary files."""
    return sorted(path.name for path in folder.rglob("*") if path.name.endswith(".tmp"))
