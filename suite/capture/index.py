"""The index of a capture: the one file that says which chunks belong to it and what made them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.errors import InvalidInput, MissingPrerequisite
from suite.records import parse_strictly

INDEX_NAME = "index.json"
SCHEMA_VERSION = 1
TOP_IDS = 64
"""Best ids and logits kept beside each row (fewer only where the vocabulary is smaller)."""

_INDEX_LIMIT_BYTES = 64 << 20

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=1 << 40)]
RowDtype = Literal["bfloat16", "float16", "float32"]
CapturePath = Literal["prefill", "decode"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ChunkEntry(_Strict):
    """One chunk file."""

    file: Annotated[str, Field(pattern=r"^chunk-[0-9]{5,9}\.safetensors$")]
    sha256: Sha256
    size_bytes: Annotated[int, Field(gt=0, le=1 << 40)]
    num_rows: Annotated[int, Field(gt=0, le=1 << 24)]
    first_position: Count
    last_position: Count


class HeadRecord(_Strict):
    """The head from which the rows of a `hidden` capture are recomputed; files lie in the store's `heads/`."""

    sha256s: Annotated[tuple[Sha256, ...], Field(min_length=1, max_length=64)]
    scale: float = 1.0
    soft_cap: float | None = None
    has_bias: bool = False


class ReplayProbe(_Strict):
    """How many rows, replayed from hidden states, equalled the engine's own bit for bit."""

    rows: Count
    equal: Count
    accepted: bool


class Sanity(_Strict):
    """Mean NLL of the recorded tokens in nats (None when no row was finite): engines that return noise show here."""

    positions: Count
    mean_nll: float | None


class EngineRecord(_Strict):
    """Which engine wrote the rows."""

    vllm: Annotated[str, Field(max_length=200)]
    torch: Annotated[str, Field(max_length=200)]
    model_runner: Annotated[str, Field(max_length=200)]


class CaptureIndex(_Strict):
    """`index.json` of one capture. Written last, so a folder that has it is complete."""

    schema_version: Literal[1]
    lock_digest: Sha256
    capture_digest: Sha256
    start: Annotated[int, Field(ge=0, le=10_000)]
    """Which fresh start of the same stack made it; 0 is the one that is scored."""
    path: CapturePath
    codec: Literal["logits", "hidden"]
    dtype: RowDtype
    """Dtype of the logits rows (and of the hidden states, for that codec)."""
    num_rows: Annotated[int, Field(gt=0, le=1 << 24)]
    row_width: Annotated[int, Field(gt=0, le=1 << 24)]
    """Columns stored per row: the vocabulary for `logits`, the hidden size for `hidden`."""
    vocab_size: Annotated[int, Field(gt=0, le=1 << 24)]
    """True vocabulary size, padding cut."""
    tokenizer_size: Annotated[int, Field(gt=0, le=1 << 24)] | None
    """Entries of the tokenizer; None where the model folder has none."""
    rows_per_gemm: Annotated[int, Field(ge=0, le=1 << 20)]
    """Constant row count at which the head was applied; 0 means the engine's own."""
    tokens_sha256: Sha256
    num_tokens: Annotated[int, Field(gt=1, le=1 << 24)]
    steps: tuple[tuple[Count, Count], ...]
    """Scheduler steps as (first position, count): chunk boundaries change bits."""
    chunks: Annotated[tuple[ChunkEntry, ...], Field(min_length=1)]
    head: HeadRecord | None
    replay_probe: ReplayProbe | None
    non_finite_rows: Count
    sanity: Sanity
    engine: EngineRecord
    receipt_sha256: Sha256
    timings: dict[str, float]
    """Seconds per phase."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        counted = sum(chunk.num_rows for chunk in self.chunks)
        if counted != self.num_rows:
            raise ValueError(f"num_rows is {self.num_rows}, but the chunks hold {counted}")
        if len({chunk.file for chunk in self.chunks}) != len(self.chunks):
            raise ValueError("a chunk file is listed twice")
        for chunk in self.chunks:
            if chunk.last_position - chunk.first_position + 1 < chunk.num_rows:
                raise ValueError(f"{chunk.file} has more rows than positions between its first and its last")
        for before, after in pairwise(self.chunks):
            if after.first_position <= before.last_position:
                raise ValueError(f"{after.file} does not start after the last position of {before.file}")
        if self.chunks[-1].last_position > self.num_tokens - 2:
            raise ValueError("the last probe has no target token")
        if self.codec == "logits" and self.row_width != self.vocab_size:
            raise ValueError("row_width differs from vocab_size in a `logits` capture")
        if self.codec == "hidden" and self.head is None:
            raise ValueError("a `hidden` capture names no head")
        if self.non_finite_rows > self.num_rows:
            raise ValueError("more non-finite rows than rows")
        return self


def parse_index(data: bytes, *, where: str) -> CaptureIndex:
    """Parse the bytes of an `index.json`.

    Raises:
        InvalidInput: not strict JSON, a newer schema, or a value that contradicts another; the key is named.
    """
    hint = "capture again; an index is never edited"
    return parse_strictly(CaptureIndex, data, where=where, newest=SCHEMA_VERSION, hint=hint)


def read_index(folder: Path) -> tuple[CaptureIndex, bytes]:
    """The index of the capture in `folder`, and its bytes (their hash identifies the capture).

    Raises:
        MissingPrerequisite: the folder has no index, so no complete capture is there.
        InvalidInput: the index cannot be used.
    """
    path = folder / INDEX_NAME
    if not path.is_file() or path.is_symlink():
        raise MissingPrerequisite(
            "no complete capture here (index.json is absent)", where=str(folder), hint="run it again, with --resume"
        )
    if path.stat().st_size > _INDEX_LIMIT_BYTES:
        raise InvalidInput(f"larger than {_INDEX_LIMIT_BYTES:,} bytes", where=str(path))
    data = path.read_bytes()
    return parse_index(data, where=str(path)), data
