"""A base file of llama.cpp, opened: its header is checked, its rows are read a block at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import BLOCK_ROWS
from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_bytes
from suite.llama.clip import WRITERS, Clip, ClipChoice, clipped_rows, resolve_clip, span_nats
from suite.llama.codes import CODE_MAX, EncodedRows
from suite.llama.header import HEADER_BYTES, MAGIC, KldHeader, parse_header
from suite.observer import Observer, SilentObserver

_BLOCK_BYTES = 32 << 20
_MAX_LOG_P = 1e-3
"""ln p of the best token may exceed 0 by float32 rounding, never by more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KldBlock:
    """Consecutive rows of one chunk."""

    chunk: int
    positions: NDArray[np.int64]
    """[n], counted over the whole file: chunk · context + place in the chunk."""
    target_ids: NDArray[np.int64]
    """[n], the token at position + 1."""
    encoded: EncodedRows
    raw: bytes
    """The rows as they lie in the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KldFile:
    """An opened base file."""

    path: Path
    header: KldHeader
    tokens: NDArray[np.int32]
    """[num_tokens], all chunks one after the other, before BOS was put in."""

    @property
    def tokens_sha256(self) -> str:
        """SHA-256 of the ids as little-endian int32."""
        return sha256_bytes(self.tokens.astype("<i4").tobytes())

    def blocks(self) -> Iterator[KldBlock]:
        """All rows in order; memory is that of one block of at most 64 rows and about 32 MiB.

        Raises:
            InvalidInput: a row's scale or floor is impossible.
            VerificationFailed: the file became shorter since it was opened.
        """
        header = self.header
        step = max(1, min(BLOCK_ROWS, _BLOCK_BYTES // header.row_bytes))
        with self.path.open("rb") as stream:
            stream.seek(header.rows_offset_bytes)
            for chunk in range(header.num_chunks):
                first = chunk * header.context_tokens + header.first_row_place
                for start in range(0, header.rows_per_chunk, step):
                    count = min(step, header.rows_per_chunk - start)
                    raw = stream.read(count * header.row_bytes)
                    if len(raw) != count * header.row_bytes:
                        raise VerificationFailed("became shorter while it was read", where=str(self.path))
                    yield self._block(chunk, first + start, count, raw)

    def _block(self, chunk: int, first: int, count: int, raw: bytes) -> KldBlock:
        items = np.frombuffer(raw, dtype="<u2").reshape(count, self.header.row_items)
        numbers = np.ascontiguousarray(items[:, :4]).view("<f4").astype(np.float32, copy=False)
        encoded = EncodedRows(
            scales=numbers[:, 0], floors=numbers[:, 1], codes=items[:, 4 : 4 + self.header.vocab_size]
        )
        _check_numbers(encoded, first, where=str(self.path))
        positions = np.arange(first, first + count, dtype=np.int64)
        targets = self.tokens[positions + 1].astype(np.int64)
        return KldBlock(chunk=chunk, positions=positions, target_ids=targets, encoded=encoded, raw=raw)


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What one pass over a whole file tells."""

    sha256: str
    """Of the whole file."""
    chunk_sha256s: tuple[str, ...]
    """Of the rows of each chunk."""
    clip: Clip
    non_finite_rows: int
    mean_nll: float | None
    """Mean of -ln p of the targets, raw, in nats; None when no row is finite."""
    clipped_targets: int
    """Targets with code 0 in a clipped row: their true ln p is that or less."""


def is_kld_file(path: Path) -> bool:
    """Whether `path` is a file that begins like a base file."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def open_kld(path: Path) -> KldFile:
    """Open a base file; header, size and token ids are checked, rows are not read yet.

    Raises:
        InvalidInput: absent, not such a file, truncated, too long, or with token ids outside its vocabulary.
    """
    where = str(path)
    if not path.is_file():
        raise InvalidInput("no such file", where=where)
    try:
        with path.open("rb") as stream:
            header = parse_header(stream.read(HEADER_BYTES), size_bytes=path.stat().st_size, where=where)
            tokens = np.fromfile(stream, dtype="<i4", count=header.num_tokens).astype(np.int32, copy=False)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=where) from error
    if len(tokens) != header.num_tokens:
        raise InvalidInput("became shorter while it was read", where=where)
    strange = np.flatnonzero((tokens < 0) | (tokens >= header.vocab_size))
    if strange.size:
        raise InvalidInput(
            f"token {int(strange[0])} has the id {int(tokens[strange[0]])}, outside the vocabulary of "
            f"{header.vocab_size:,}",
            where=where,
            hint="the file is damaged, or its header is not its own",
        )
    return KldFile(path=path, header=header, tokens=tokens)


def survey_kld(file: KldFile, *, clip: ClipChoice = "auto", observer: Observer | None = None) -> Survey:
    """Read a file once: hashes, clip, rows that are not finite, mean NLL.

    Args:
        file: The opened file.
        clip: What the caller knows of its clip.
        observer: Told of progress, in rows.

    Raises:
        InvalidInput: a row is impossible, or wider than the clip allows.
        VerificationFailed: the file became shorter since it was opened.
    """
    observer = observer or SilentObserver()
    observer.phase("read base file", total=file.header.num_rows, unit="rows")
    whole = hashlib.sha256(file.header.to_bytes() + file.tokens.astype("<i4").tobytes())
    chunks: list[hashlib._Hash] = []
    widest, nll, finite_rows, at_floor = 0.0, [], 0, dict.fromkeys(WRITERS, 0)
    for block in file.blocks():
        if block.chunk == len(chunks):
            chunks.append(hashlib.sha256())
        whole.update(block.raw)
        chunks[block.chunk].update(block.raw)
        encoded, finite = block.encoded, block.encoded.finite
        codes = encoded.codes[np.arange(len(finite)), block.target_ids]
        if finite.any():
            # A row that is not finite may hold any bits as its scale; it is counted, and nothing is made of them.
            scales, codes = encoded.scales[finite], codes[finite]
            widest = max(widest, span_nats(float(scales.max())))
            nll.append(-math.fsum((scales * codes.astype(np.float32) + encoded.floors[finite]).tolist()))
            finite_rows += len(scales)
            for nats in WRITERS:
                at_floor[nats] += int(((codes == 0) & clipped_rows(scales, nats)).sum())
        observer.advance(len(finite))
    known = resolve_clip(clip, widest, where=str(file.path))
    return Survey(
        sha256=whole.hexdigest(),
        chunk_sha256s=tuple(chunk.hexdigest() for chunk in chunks),
        clip=known,
        non_finite_rows=file.header.num_rows - finite_rows,
        mean_nll=math.fsum(nll) / finite_rows if finite_rows else None,
        clipped_targets=at_floor[known.nats] if known.nats is not None else 0,
    )


def require_same_probes(base: KldFile, candidate: KldFile) -> None:
    """Refuse two files that do not hold rows of the same tokens; llama-perplexity itself only warns, or goes on.

    Raises:
        InvalidInput: every differing key, with both values.
    """
    names = ("context_tokens", "vocab_size", "num_chunks")
    told = [
        f"{name} ({getattr(base.header, name):,} and {getattr(candidate.header, name):,})"
        for name in names
        if getattr(base.header, name) != getattr(candidate.header, name)
    ]
    if not told and not np.array_equal(base.tokens, candidate.tokens):
        told = [f"tokens, first at {int(np.flatnonzero(base.tokens != candidate.tokens)[0])}"]
    if told:
        raise InvalidInput(
            f"the two files cannot be compared: they differ in {', '.join(told)}",
            where=f"{base.path}, {candidate.path}",
            hint="write both with the same -f, -c and --chunks, for models of one tokenizer",
        )


def _check_numbers(encoded: EncodedRows, first: int, *, where: str) -> None:
    """Refuse what no distribution can give. NaN and infinities are the model's own doing, and are counted instead."""
    finite = encoded.finite
    with np.errstate(invalid="ignore", over="ignore"):
        best = encoded.scales.astype(np.float64) * CODE_MAX + encoded.floors
        wrong = finite & ((encoded.scales < 0) | (best > _MAX_LOG_P))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInput(
            f"position {first + row}: a scale of {encoded.scales[row]:g} and a floor of {encoded.floors[row]:g} "
            "give no log-probabilities",
            where=where,
            hint="the file is damaged",
        )
