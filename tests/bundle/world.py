"""A reference, a candidate and everything else a bundle is made of, small and synthetic."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from suite.bundle.parts import BundleParts
from suite.bundle.redact import Private
from suite.capture.rows import open_rows
from suite.capture.store import Capture, open_capture
from suite.files import canonical_json
from suite.manifest.load import dump_yaml
from suite.manifest.lock import Lock, parse_lock
from suite.score.floor import repeat_floor
from suite.score.labels import Labels
from suite.score.scorer import write_scores
from tests.capture.synthetic import RECEIPT, bf16, write_capture
from tests.score.session import TOKENS, logits, rendered

CREATED = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def lock(name: str, *, role: str = "candidate", kv_cache_dtype: str = "bfloat16", **changes: Any) -> Lock:
    """A CPU lock of the tiny session; `changes` replace whole top-level keys."""
    session = rendered()
    value = {
        "schema_version": 1,
        "name": name,
        "role": role,
        "runtime": {"kind": "process", "packages": {"vllm": "0.32.0"}},
        "hardware": {"kind": "cpu", "architecture": "x86_64", "threads": 1},
        "engine": {
            "kv_cache_dtype": kv_cache_dtype,
            "enforce_eager": True,
            "enable_prefix_caching": False,
            "max_num_batched_tokens": 2048,
            "max_model_len": 8192,
            "max_num_seqs": 1,
            "dtype": "bfloat16",
        },
        "environment": {},
        "model": {"source": {}, "files": [{"path": "model.safetensors", "size_bytes": 1, "sha256": "6" * 64}]},
        "tokenizer_sha256": session.tokenizer_sha256,
        "chat_template_sha256": session.chat_template_sha256,
        "workload": {
            "name": "tiny",
            "digest": session.workload_digest,
            "tokens_sha256": session.tokens_sha256,
            "num_tokens": len(TOKENS),
        },
        "capture": {
            "path": "prefill",
            "stride": 1,
            "ranges": [],
            "codec": "auto",
            "rows_per_gemm": 64,
            "chunk_rows": 1024,
        },
        "serve": {},
        "repeats": 3,
        "branches": {"policy": "none", "max_new_tokens": 1024},
    }
    return parse_lock(canonical_json(value | changes), where="lock")


def manifest_of(of: Lock) -> bytes:
    """The manifest that a bundle of this lock holds."""
    value = of.to_json()
    for key in ("tokenizer_sha256", "chat_template_sha256"):
        del value[key]
    value |= {
        "model": {"path": "model"},
        "workload": {"session": "workloads/tiny.json"},
        "capture": {key: item for key, item in value["capture"].items() if item != []},
    }
    if of.role != "reference":
        value["reference"] = "bf16.yaml"
    return dump_yaml(value).encode()


def receipt(kv_cache_dtype: str, kernel: str = "PlainKernel") -> dict[str, Any]:
    """A receipt in which everything requested was effective."""
    return RECEIPT | {
        "requested": {"dtype": "bfloat16", "kv_cache_dtype": kv_cache_dtype},
        "effective": {"dtype": "bfloat16", "kv_cache_dtype": kv_cache_dtype, "threads": 1},
        "ranks": [{"linear": [{"kernels": [kernel], "quant_method": "Q"}]}],
    }


@dataclass(frozen=True, kw_only=True)
class World:
    """A folder with a capture store, and how to make parts from it."""

    root: Path

    @property
    def captures(self) -> Path:
        return self.root / "captures"

    @property
    def results(self) -> Path:
        return self.root / "results"

    def capture(self, of: Lock, values: np.ndarray, *, start: int = 0, **options: Any) -> Capture:
        folder = self.captures / of.capture_digest / f"start-{start}"
        options.setdefault("receipt", receipt(of.engine.kv_cache_dtype))
        positions = options.get("positions", range(len(values)))
        write_capture(
            folder,
            bf16(values[list(positions)]),
            TOKENS,
            lock_digest=of.digest,
            capture_digest=of.capture_digest,
            start=start,
            **options,
        )
        return open_capture(folder)

    def parts(
        self,
        name: str = "fp8-kv",
        *,
        candidate: np.ndarray | None = None,
        role: str = "candidate",
        kv_cache_dtype: str = "fp8_e4m3",
        repeats: int = 3,
        **options: Any,
    ) -> BundleParts:
        """Parts of a bundle in which the candidate flips positions 2 (confident) and 7."""
        values = logits()
        if candidate is None:
            candidate = logits()
            candidate[2, 5] = 20
            candidate[7] = np.roll(candidate[7], 1)
        changes = {key: options.pop(key) for key in ("capture", "runtime") if key in options}
        ours = lock("bf16", role="reference", **changes)
        theirs = lock(name, role=role, kv_cache_dtype=kv_cache_dtype, **changes)
        reference = self.capture(ours, values, **options)
        starts = [self.capture(theirs, candidate, start=k, **options) for k in range(repeats)]
        ledger = self.root / f"{name}.parquet"
        write_scores(ledger, open_rows(reference), open_rows(starts[0]), labels=Labels.of(rendered()))
        return BundleParts(
            created=CREATED,
            manifest_yaml=manifest_of(theirs),
            lock=theirs,
            reference_lock=ours,
            candidate=starts[0],
            reference=reference,
            ledger=ledger,
            repeats=repeat_floor(starts),
            sbom={"bomFormat": "CycloneDX", "specVersion": "1.6"},
            performance={"schema_version": 1, "phases": {"capture_seconds": 0.25}},
            engine_log="loaded /home/someone/models with hf_abcdefghijklmnop on node-17\n",
            private=Private(home="/home/someone", host="node-17", user="someone"),
        )

    def with_band(self, parts: BundleParts, band: tuple) -> BundleParts:
        return replace(parts, band=band)
