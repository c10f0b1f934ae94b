"""The one message from the host to the agent: what to capture, from which tokens, under which settings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1


def require_schema(values: dict[str, Any], version: int, name: str) -> None:
    """See that a request is of the version that this agent reads.

    Raises:
        ValueError: another one.
    """
    found = values.get("schema_version")
    if found != version:
        raise ValueError(f"{name} schema {found} is not the {version} that this agent reads")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureJob:
    """One start of one stack.

    Paths are as the stack sees them. Positions follow one rule everywhere: the row at position p is the logits that
    predict token p + 1, so the last token of the workload has no row.
    """

    out: str
    """Folder for chunks, receipt, events and index."""
    heads: str
    """Folder in which a `hidden` capture keeps its head, by hash."""
    model: str
    """Folder of the checkpoint."""
    tokens: str
    """`.npy` file of int32 token ids."""
    tokens_sha256: str
    """SHA-256 of the ids as little-endian int32."""
    engine: dict[str, Any]
    """Keyword arguments of `vllm.LLM`."""
    path: str
    """`prefill` or `decode`."""
    stride: int | None
    """Every p with p % stride == stride - 1; None for none. Prefill path only."""
    ranges: tuple[tuple[int, int], ...]
    """Half-open token ranges whose every token is probed."""
    codec: str
    """`auto`, `logits` or `hidden`."""
    rows_per_gemm: int
    """The head is always applied to exactly this many rows, so that a row's bits do not depend on its neighbours."""
    chunk_rows: int
    """Rows per chunk file."""
    expect: dict[str, Any]
    """Requested settings by their receipt name; a different effective value stops the run."""
    sanity_positions: int
    """Length of the prefix on which the mean NLL is checked before the capture."""
    sanity_max_nll: float | None
    """Highest believable mean NLL in nats per token; None: ln of the vocabulary size."""
    lock_digest: str
    capture_digest: str
    start: int
    """Which fresh start of the stack this is, from 0."""
    model_files: dict[str, str] = dataclasses.field(default_factory=dict)
    """Files of the checkpoint -> SHA-256 of the lock; hashed again before the engine reads them."""
    neighbours: int = 0
    """Other requests that share every step of the captured one."""
    score: dict[str, Any] | None = None
    """A `hidden` reference to score against while the engine runs: `chunks`, `heads`, `shards`, `rows_per_gemm`, and
    `columns`, the file for the result. It changes no captured row."""
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CaptureJob:
        """The job that `to_json` wrote.

        Raises:
            ValueError: another schema version.
            TypeError: an unknown or absent key.
        """
        require_schema(values, SCHEMA_VERSION, "job")
        ranges = tuple((int(a), int(b)) for a, b in values["ranges"])
        return cls(**(values | {"ranges": ranges}))

    def to_json(self) -> dict[str, Any]:
        """The job as plain JSON values."""
        return dataclasses.asdict(self)
