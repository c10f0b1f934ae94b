"""A capture, written as a base file that llama-perplexity reads."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.capture.rows import RowBlock, RowSource, open_rows
from suite.capture.store import Capture
from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import sha256_bytes
from suite.llama.codes import EncodedRows, encode_rows
from suite.llama.header import KldHeader
from suite.llama.sidecar import Sidecar, is_import, read_sidecar
from suite.observer import Observer, SilentObserver


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What was written."""

    path: Path
    header: KldHeader
    clip_nats: int | None
    non_finite_rows: int


def export_kld(
    capture: Capture,
    out: Path,
    *,
    token_ids: Sequence[int] | None = None,
    context_tokens: int | None = None,
    clip_nats: int | None = None,
    rows: RowSource | None = None,
    observer: Observer | None = None,
) -> Exported:
    """Write a capture as a base file; `out` is whole or absent.

    An import comes back byte for byte (but for the pad of an odd vocabulary, which is 0 here). Any other capture
    becomes one chunk, its context the first `context_tokens` tokens: the format wants a row at every place of the
    second half of a context, and a chunk that stood later in a longer context would be compared with one that did not.

    Args:
        capture: Codec `logits`, unless `rows` gives its rows.
        out: The file to write.
        token_ids: All tokens of the workload; an import has its own.
        context_tokens: Length of the chunk; all tokens by default.
        clip_nats: 16 (default, llama.cpp) or 24 (ik_llama.cpp). An import keeps the clip that it has.
        rows: Rows of a `hidden` capture, replayed.
        observer: Told of progress, in rows.

    Raises:
        InvalidInput: tokens are absent or of another workload, or a place of the second half has no row.
        MissingPrerequisite: a `hidden` capture without `rows`, or a full disk.
    """
    observer = observer or SilentObserver()
    source = rows or open_rows(capture)
    where = str(capture.folder)
    sidecar = read_sidecar(capture.folder, capture.index) if is_import(capture.index) else None
    if sidecar is not None:
        if clip_nats not in (None, sidecar.receipt.clip_nats) or context_tokens is not None:
            raise InvalidInput(
                "an imported file is exported as it was", where=where, hint="leave --clip and --context out"
            )
        header, tokens, clip = sidecar.receipt.header, sidecar.tokens, sidecar.receipt.clip_nats
    else:
        tokens = _tokens_of(capture, token_ids)
        header = KldHeader(
            context_tokens=context_tokens or len(tokens), vocab_size=capture.index.vocab_size, num_chunks=1
        )
        if not 3 <= header.context_tokens <= len(tokens):
            raise InvalidInput(
                f"a context of {header.context_tokens} tokens, of {len(tokens)} that there are", where=where
            )
        clip = clip_nats or 16
    observer.phase("export", total=header.num_rows, unit="rows")
    non_finite = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(header.to_bytes())
            stream.write(tokens[: header.num_tokens].astype("<i4").tobytes())
            for encoded in _encoded(source, header, sidecar, clip or 16, where=where):
                stream.write(row_bytes(encoded, header))
                non_finite += int((~encoded.finite).sum())
                observer.advance(len(encoded.scales))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(out)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingPrerequisite(
                f"no space left for {header.file_bytes:,} bytes", where=str(out), hint="free disk space, then run again"
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return Exported(path=out, header=header, clip_nats=clip, non_finite_rows=non_finite)


def row_bytes(encoded: EncodedRows, header: KldHeader) -> bytes:
    """Rows as they lie in a file, with a pad of 0 where the vocabulary is odd."""
    items = np.zeros((len(encoded.scales), header.row_items), dtype="<u2")
    numbers = np.stack([encoded.scales, encoded.floors], axis=1).astype("<f4")
    items[:, :4] = numbers.view("<u2")
    items[:, 4 : 4 + header.vocab_size] = encoded.codes
    return items.tobytes()


def _tokens_of(capture: Capture, token_ids: Sequence[int] | None) -> NDArray[np.int32]:
    where = str(capture.folder)
    if token_ids is None:
        raise InvalidInput(
            "a capture does not hold the tokens of its workload, and the format needs them",
            where=where,
            hint="give the rendered workload with --tokens",
        )
    tokens = np.array(token_ids, dtype=np.int32)
    if sha256_bytes(tokens.astype("<i4").tobytes()) != capture.index.tokens_sha256:
        raise InvalidInput("these are not the tokens that were captured", where=where, hint="render the same workload")
    return tokens


def _encoded(
    source: RowSource, header: KldHeader, sidecar: Sidecar | None, clip_nats: int, *, where: str
) -> Iterator[EncodedRows]:
    if sidecar is not None:
        done = 0
        for block in source.blocks():
            stop = done + len(block.positions)
            yield _coded_again(block, sidecar.scales[done:stop], sidecar.floors[done:stop])
            done = stop
        return
    wanted = header.first_row_place
    last = header.context_tokens - 2
    for block in source.blocks():
        inside = (block.positions >= header.first_row_place) & (block.positions <= last)
        positions = block.positions[inside]
        expected = np.arange(wanted, wanted + len(positions))
        if not np.array_equal(positions, expected):
            raise _gap(int(expected[positions != expected][0]), header, where)
        if len(positions):
            yield encode_rows(block.rows[inside], clip_nats=clip_nats)
        wanted += len(positions)
    if wanted != last + 1:
        raise _gap(wanted, header, where)


def _gap(position: int, header: KldHeader, where: str) -> InvalidInput:
    return InvalidInput(
        f"no row at position {position}; a base file of context {header.context_tokens} needs every position from "
        f"{header.first_row_place} to {header.context_tokens - 2}",
        where=where,
        hint="capture that range (`capture.ranges`), or choose a --context whose second half was captured",
    )


def _coded_again(block: RowBlock, scales: NDArray[np.float32], floors: NDArray[np.float32]) -> EncodedRows:
    """The codes from which an import made its rows: rows are scale · code, rounded to 24 bits, and codes have 16."""
    finite = np.isfinite(scales) & np.isfinite(floors) & (scales > 0)
    divisor = np.where(finite, scales, np.float32(1)).astype(np.float64)
    steps = np.where(finite[:, None], block.rows, np.float32(0)).astype(np.float64) / divisor[:, None]
    return EncodedRows(scales=scales, floors=floors, codes=np.rint(steps).astype(np.uint16))
