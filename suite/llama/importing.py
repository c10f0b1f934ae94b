"""A base file of llama.cpp, brought into the capture store."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.capture.index import INDEX_NAME, ChunkEntry
from suite.capture.store import RECEIPT_NAME, Capture, open_capture
from suite.capture.tensors import write_tensors
from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import canonical_json, sha256_bytes, sha256_file, write_atomic
from suite.llama.clip import ClipChoice
from suite.llama.file import KldBlock, KldFile, open_kld, survey_kld
from suite.llama.rows import digest_of, index_of, row_hashes
from suite.llama.sidecar import ImportReceipt, read_sidecar, write_sidecar
from suite.observer import Observer, SilentObserver

_CHUNK_BYTES = 64 << 20
_HEADROOM = 1.02


def import_kld(path: Path, *, home: Path, clip: ClipChoice = "auto", observer: Observer | None = None) -> Capture:
    """Write a base file as a capture of codec `logits`, float32, prefill path; an import that is there is returned.

    Row i of a chunk stands at position chunk · context + context // 2 + i and predicts the token that follows. The
    first token of each chunk is kept as the file has it: a program that adds BOS had put BOS there.

    Args:
        path: The base file.
        home: State folder; the capture lands in `captures/<digest>/start-0`, named by the file's hash.
        clip: 16, 24, or `auto` to infer it.
        observer: Told of progress, in rows.

    Raises:
        InvalidInput: not such a file, damaged, wider than `clip` allows, or imported before with another clip.
        MissingPrerequisite: the disk is too small for its float32 rows (twice the size of the file).
    """
    observer = observer or SilentObserver()
    file = open_kld(path)
    survey = survey_kld(file, clip=clip, observer=observer)
    folder = home / "captures" / digest_of(survey) / "start-0"
    if (folder / INDEX_NAME).is_file():
        there = open_capture(folder)
        known = read_sidecar(folder, there.index).receipt
        if clip != "auto" and known.clip_nats != survey.clip.nats:
            raise InvalidInput(
                f"already imported with another clip (max-{known.clip_nats}, {known.clip_source})",
                where=str(folder),
                hint=f"leave --clip out, or remove that folder and import with --clip {clip}",
            )
        observer.note(f"already imported: {folder}")
        return there
    folder.parent.mkdir(parents=True, exist_ok=True)
    _require_disk(file, folder.parent)
    temporary = Path(tempfile.mkdtemp(prefix=".import-", dir=folder.parent))
    try:
        observer.phase("import", total=file.header.num_rows, unit="rows")
        chunks, scales, floors = _write_chunks(file, temporary, observer)
        receipt = ImportReceipt(
            source_sha256=survey.sha256,
            context_tokens=file.header.context_tokens,
            vocab_size=file.header.vocab_size,
            num_chunks=file.header.num_chunks,
            clip_nats=survey.clip.nats,
            clip_source=survey.clip.source,
            largest_span_nats=survey.clip.span_nats,
            clipped_targets=survey.clipped_targets,
            sidecar_sha256=write_sidecar(temporary, tokens=file.tokens, scales=scales, floors=floors),
        ).to_bytes()
        write_atomic(temporary / RECEIPT_NAME, receipt)
        index = index_of(file, survey, chunks=chunks, receipt_sha256=sha256_bytes(receipt))
        write_atomic(temporary / INDEX_NAME, canonical_json(index.model_dump(mode="json")))
        temporary.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)  # without an index it was never a capture
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return open_capture(folder)


def _write_chunks(
    file: KldFile, folder: Path, observer: Observer
) -> tuple[tuple[ChunkEntry, ...], NDArray[np.float32], NDArray[np.float32]]:
    limit = max(1, _CHUNK_BYTES // (4 * file.header.vocab_size))
    entries: list[ChunkEntry] = []
    waiting: list[KldBlock] = []
    scales, floors = [], []
    for block in file.blocks():
        if waiting and sum(len(other.positions) for other in waiting) + len(block.positions) > limit:
            entries.append(_write_chunk(folder, len(entries), waiting))
            waiting = []
        waiting.append(block)
        scales.append(block.encoded.scales)
        floors.append(block.encoded.floors)
        observer.advance(len(block.positions))
    entries.append(_write_chunk(folder, len(entries), waiting))
    return tuple(entries), np.concatenate(scales), np.concatenate(floors)


def _write_chunk(folder: Path, number: int, blocks: list[KldBlock]) -> ChunkEntry:
    path = folder / f"chunk-{number:05d}.safetensors"
    positions = np.concatenate([block.positions for block in blocks])
    rows = np.concatenate([block.encoded.logits() for block in blocks])
    tensors = {
        "rows": rows,
        "positions": positions,
        "target_ids": np.concatenate([block.target_ids for block in blocks]),
        "row_sha256": row_hashes(rows),
    }
    write_tensors(path, tensors)
    return ChunkEntry(
        file=path.name,
        sha256=sha256_file(path),
        size_bytes=path.stat().st_size,
        num_rows=len(positions),
        first_position=int(positions[0]),
        last_position=int(positions[-1]),
    )


def _require_disk(file: KldFile, folder: Path) -> None:
    needed = int(file.header.num_rows * (4 * file.header.vocab_size + 64) * _HEADROOM)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise MissingPrerequisite(
            f"the import needs {needed / 1e9:.1f} GB of disk, {free / 1e9:.1f} GB are free",
            where=str(folder),
            hint="free disk space, set SUITE_HOME to a larger disk, or score the file itself without importing it",
        )
