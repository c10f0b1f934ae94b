"""Which chunk files of a start are whole, and that they are still what was written: the journal of a capture.

`chunks.jsonl` begins with a line that names the job and codec; one line follows for each chunk, written before the
chunk gets its name. So after any kill a chunk file is whole if and only if the journal has its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from suite.agent.events import AgentFailure, write_whole

JOURNAL_NAME = "chunks.jsonl"
_READ_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkFile:
    """One written chunk."""

    file: str
    sha256: str
    size_bytes: int
    num_rows: int
    first_position: int
    last_position: int
    non_finite_rows: int

    def to_index(self) -> dict[str, Any]:
        """The chunk as the index lists it."""
        value = asdict(self)
        del value["non_finite_rows"]
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """What an interrupted start left behind."""

    job: str
    """Digest of the job and of the agent that captured it."""
    codec: str
    """How its chunks are stored."""
    replay: dict[str, Any] | None
    """The replay probe that led to codec `logits`; None before any probe."""


def chunk_name(index: int) -> str:
    """File name of the chunk with this index."""
    return f"chunk-{index:05d}.safetensors"


def file_sha256(path: Path) -> str:
    """Lower-case hex SHA-256 of a file, read in pieces of 4 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def start_journal(folder: Path, journal: Journal) -> None:
    """Begin a capture in `folder`: all chunks of an earlier one are removed."""
    for stale in (*folder.glob("chunk-*.safetensors"), *folder.glob(".chunk-*.tmp")):
        stale.unlink()
    write_whole(folder / JOURNAL_NAME, f"{json.dumps(asdict(journal))}\n".encode())


def record_chunk(folder: Path, chunk: ChunkFile) -> None:
    """Write down a chunk that is about to get its name."""
    with (folder / JOURNAL_NAME).open("ab") as stream:
        stream.write(json.dumps(asdict(chunk)).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_journal(folder: Path) -> tuple[Journal, list[ChunkFile]] | None:
    """The journal and the whole chunks of an interrupted start, in order; None if there is nothing to go on from.

    Raises:
        AgentFailure: a chunk is not what was written (`altered`).
    """
    path = folder / JOURNAL_NAME
    if not path.is_file():
        return None
    lines = _whole_lines(path)
    try:
        journal = Journal(**json.loads(lines[0]))
        written: dict[str, list[ChunkFile]] = {}
        for line in lines[1:]:
            chunk = ChunkFile(**json.loads(line))
            written.setdefault(chunk.file, []).append(chunk)
    except (IndexError, TypeError, ValueError):
        return None
    for partial in folder.glob(".chunk-*.tmp"):
        partial.unlink()
    whole: list[ChunkFile] = []
    while (chunk_path := folder / chunk_name(len(whole))).is_file():
        whole.append(_match(chunk_path, written.get(chunk_path.name, [])))
    return journal, whole


def _whole_lines(path: Path) -> list[bytes]:
    """The lines that end; a line torn by a kill is cut off, so that the next one begins where it should."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end != len(data):
        with path.open("r+b") as stream:
            stream.truncate(end)
    return data[:end].splitlines()


def _match(path: Path, written: list[ChunkFile]) -> ChunkFile:
    """The record of the file as it is. A chunk has two where facts were added to it later."""
    found = file_sha256(path)
    for chunk in written:
        if chunk.sha256 == found:
            return chunk
    raise AgentFailure(
        "altered",
        f"{path.name} is not what the interrupted start wrote: it was truncated or altered",
        "run again without --resume to capture it anew",
    )
