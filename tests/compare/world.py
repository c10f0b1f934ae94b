"""Bundles of one session with as many turns as a test needs; a candidate is the positions at which it flips."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from suite.bundle.parts import BundleParts
from suite.bundle.read import open_bundle
from suite.bundle.redact import Private
from suite.bundle.write import write_bundle
from suite.capture.rows import open_rows
from suite.capture.store import Capture, open_capture
from suite.manifest.lock import Lock
from suite.score.floor import repeat_floor
from suite.score.labels import Labels
from suite.score.scorer import write_scores
from suite.workload.rendered import Rendered, Span, Turn, tokens_sha256
from tests.bundle.world import lock, manifest_of, receipt
from tests.capture.synthetic import bf16, write_capture

VOCABULARY = 6
TURN_TOKENS = 8
CONFIDENT, UNCERTAIN = 6.0, 0.5
"""How far the recorded token's logit stands above the others: probability 0.99, or 0.25."""


def session(turns: int) -> Rendered:
    """Turns of 8 tokens, user and assistant in alternation."""
    tokens = [i % VOCABULARY for i in range(turns * TURN_TOKENS)]
    edges = [(t * TURN_TOKENS, (t + 1) * TURN_TOKENS) for t in range(turns)]
    kinds = ["user" if t % 2 == 0 else "assistant_output" for t in range(turns)]
    return Rendered(
        token_ids=tuple(tokens),
        spans=tuple(Span(start=a, end=b, kind=kinds[t], turn=t) for t, (a, b) in enumerate(edges)),
        turns=tuple(
            Turn(
                index=t,
                role="user" if t % 2 == 0 else "assistant",
                start=a,
                end=b,
                output_start=None if t % 2 == 0 else a,
            )
            for t, (a, b) in enumerate(edges)
        ),
        workload_digest="3" * 64,
        tokens_sha256=tokens_sha256(tokens),
        tokenizer_sha256="4" * 64,
        chat_template_sha256="5" * 64,
    )


@dataclass
class CompareWorld:
    """A results folder and what bundles in it are made from."""

    root: Path
    turns: int = 20
    path: str = "prefill"
    made: int = 0

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def num_probes(self) -> int:
        return self.turns * TURN_TOKENS - 1

    def rows(self, flips: tuple[int, ...] = (), *, noise: float = 0.0) -> np.ndarray:
        """Logits: the recorded token leads, clearly at even positions and hardly at odd ones; another at `flips`."""
        rendered = session(self.turns)
        values = np.zeros((self.num_probes, VOCABULARY), dtype=np.float32)
        positions = np.arange(self.num_probes)
        targets = np.array(rendered.token_ids)[positions + 1]
        values[positions, targets] = np.where(positions % 2 == 0, CONFIDENT, UNCERTAIN)
        at = np.array([place for place in flips if place < self.num_probes], dtype=int)
        values[at, (targets[at] + 1) % VOCABULARY] = values[at, targets[at]] + 1
        return values + np.random.default_rng(3).normal(0, noise, values.shape) if noise else values

    def lock(self, name: str, **options: Any) -> Lock:
        rendered = session(self.turns)
        workload = {
            "name": "many-turns",
            "digest": rendered.workload_digest,
            "tokens_sha256": rendered.tokens_sha256,
            "num_tokens": len(rendered.token_ids),
        }
        capture = {
            "path": self.path,
            "stride": 1,
            "ranges": [],
            "codec": "auto",
            "rows_per_gemm": 64,
            "chunk_rows": 1024,
        }
        return lock(name, workload=workload, capture=capture, **options)

    def capture(self, of: Lock, values: np.ndarray, start: int = 0) -> Capture:
        folder = self.root / "captures" / of.capture_digest / f"start-{start}"
        write_capture(
            folder,
            bf16(values),
            list(session(self.turns).token_ids),
            chunk_rows=max(100, self.num_probes // 4),
            lock_digest=of.digest,
            capture_digest=of.capture_digest,
            start=start,
            path=self.path,
            receipt=receipt(of.engine.kv_cache_dtype),
        )
        return open_capture(folder)

    def bundle(
        self,
        name: str,
        flips: tuple[int, ...] = (),
        *,
        role: str = "candidate",
        band: tuple = (),
        noise: float = 0.0,
        reference: np.ndarray | None = None,
        **options: Any,
    ) -> Path:
        """Write one bundle and return its folder."""
        self.made += 1
        options.setdefault("kv_cache_dtype", "auto" if role == "band" else "fp8_e4m3")
        ours, theirs = self.lock("bf16", role="reference"), self.lock(name, role=role, **options)
        first = self.capture(ours, self.rows() if reference is None else reference)
        starts = [self.capture(theirs, self.rows(tuple(flips), noise=noise), k) for k in range(3)]
        ledger = self.root / f"{name}-{self.made}.parquet"
        write_scores(ledger, open_rows(first), open_rows(starts[0]), labels=Labels.of(session(self.turns)))
        parts = BundleParts(
            created=datetime(2026, 3, 4, tzinfo=UTC) + timedelta(minutes=self.made),
            manifest_yaml=manifest_of(theirs),
            lock=theirs,
            reference_lock=ours,
            candidate=starts[0],
            reference=first,
            ledger=ledger,
            repeats=repeat_floor(starts),
            band=band,
            performance={"schema_version": 1, "phases": {}},
            engine_log="",
            private=Private(home="/home/someone", host="node-17", user="someone"),
        )
        return write_bundle(parts, results=self.results)


def one_per_turn(turns: range | list[int], *, place: int = 1) -> tuple[int, ...]:
    """A flip at one place of each of these turns; an odd place is an uncertain flip, an even one a confident flip."""
    return tuple(t * TURN_TOKENS + place for t in turns)


def member(folder: Path):
    """The bundle at `folder` as a member of a band."""
    from suite.bundle.band import member_of

    return member_of(open_bundle(folder))
