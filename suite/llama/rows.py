"""Base files as scoring reads captures: the same rows, positions and labels, without an import."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import CaptureIndex, ChunkEntry, EngineRecord, Sanity
from suite.capture.rows import RowBlock
from suite.files import canonical_json, sha256_bytes
from suite.llama.clip import ClipChoice
from suite.llama.file import KldFile, Survey, open_kld, survey_kld
from suite.llama.header import KldHeader
from suite.observer import Observer
from suite.score.labels import Labels

MODEL_RUNNER = "llama.cpp --kl-divergence-base file"
"""`engine.model_runner` of everything that came from a base file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KldRows:
    """The `RowSource` of a base file. Rows are scale · code in float32: the logits up to a constant per row.

    A softmax of them, in FP64, is the file's distribution normalised to 1. Equal codes are ties; nothing else is.
    """

    file: KldFile
    survey: Survey
    index: CaptureIndex

    @property
    def labels(self) -> Labels:
        """Labels of the file's tokens: each chunk is one turn, because each is a context of its own."""
        return labels_of(self.file.header, self.file.tokens)

    def blocks(self) -> Iterator[RowBlock]:
        """All probes, at most 64 at a time."""
        for block in self.file.blocks():
            rows = block.encoded.logits()
            yield RowBlock(
                positions=block.positions,
                target_ids=block.target_ids,
                row_sha256=row_hashes(rows),
                rows=rows,
            )


def open_llama_rows(path: Path, *, clip: ClipChoice = "auto", observer: Observer | None = None) -> KldRows:
    """Open a base file for scoring. It is read once, to hash and check it, before the first row is given.

    Raises:
        InvalidInput: not such a file, damaged, or wider than `clip` allows.
    """
    file = open_kld(path)
    survey = survey_kld(file, clip=clip, observer=observer)
    return KldRows(file=file, survey=survey, index=index_of(file, survey))


def labels_of(header: KldHeader, tokens: NDArray[np.int32]) -> Labels:
    """Labels of `tokens` [num_tokens]: turn = chunk, no span kinds, no ranges."""
    return Labels(
        token_ids=tokens.astype(np.int64),
        turns=np.repeat(np.arange(header.num_chunks, dtype=np.int32), header.context_tokens),
        kinds=np.full(header.num_tokens, "", dtype="<U20"),
        ranges=np.empty((0, 2), dtype=np.int64),
    )


def row_hashes(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """[n, 32] SHA-256 of each row's little-endian bytes."""
    little = np.ascontiguousarray(rows, dtype="<f4")
    digests = [hashlib.sha256(row.tobytes()).digest() for row in little]
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(rows), 32)


def digest_of(survey: Survey) -> str:
    """What stands for lock and capture digest: there is no lock, only the file and its hash."""
    return sha256_bytes(canonical_json({"kind": "llama-kld", "schema_version": 1, "sha256": survey.sha256}))


def index_of(
    file: KldFile, survey: Survey, *, chunks: tuple[ChunkEntry, ...] | None = None, receipt_sha256: str | None = None
) -> CaptureIndex:
    """The index of the file as a capture of the prefill path, in float32, with one step per chunk.

    Args:
        file: The opened file.
        survey: Of the same file.
        chunks: Chunk files of an import; without them, the chunks of the file itself.
        receipt_sha256: Of the import's receipt; without one, of the index's own digest.
    """
    header, digest = file.header, digest_of(survey)
    valid = header.num_rows - survey.non_finite_rows
    parts: dict[str, Any] = {
        "schema_version": 1,
        "lock_digest": digest,
        "capture_digest": digest,
        "start": 0,
        "path": "prefill",
        "codec": "logits",
        "dtype": "float32",
        "num_rows": header.num_rows,
        "row_width": header.vocab_size,
        "vocab_size": header.vocab_size,
        "tokenizer_size": None,
        "rows_per_gemm": 0,
        "tokens_sha256": file.tokens_sha256,
        "num_tokens": header.num_tokens,
        "steps": tuple((chunk * header.context_tokens, header.context_tokens) for chunk in range(header.num_chunks)),
        "chunks": chunks or _own_chunks(header, survey),
        "head": None,
        "replay_probe": None,
        "non_finite_rows": survey.non_finite_rows,
        "sanity": Sanity(positions=valid, mean_nll=survey.mean_nll),
        "engine": EngineRecord(vllm="none", torch="none", model_runner=MODEL_RUNNER),
        "receipt_sha256": receipt_sha256 or digest,
        "timings": {},
    }
    return CaptureIndex(**parts)


def _own_chunks(header: KldHeader, survey: Survey) -> tuple[ChunkEntry, ...]:
    firsts = [chunk * header.context_tokens + header.first_row_place for chunk in range(header.num_chunks)]
    return tuple(
        ChunkEntry(
            file=f"chunk-{chunk:05d}.safetensors",
            sha256=survey.chunk_sha256s[chunk],
            size_bytes=header.chunk_bytes,
            num_rows=header.rows_per_chunk,
            first_position=first,
            last_position=first + header.rows_per_chunk - 1,
        )
        for chunk, first in enumerate(firsts)
    )
