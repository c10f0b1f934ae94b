"""What an imported capture keeps beside its chunks: everything of the base file that rows do not hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.capture.index import CaptureIndex, Count, Sha256
from suite.capture.store import RECEIPT_NAME
from suite.capture.tensors import open_tensors, write_tensors
from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json, sha256_file, strict_json
from suite.llama.header import KldHeader
from suite.llama.rows import MODEL_RUNNER, labels_of
from suite.score.labels import Labels

SIDECAR_NAME = "llama-kld.safetensors"
_AGAIN = "delete this capture and import the file again"


class ImportReceipt(BaseModel):
    """`receipt.json` of an import: no engine ran here, so it tells of the file and of nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1] = 1
    kind: Literal["llama-kld-import"] = "llama-kld-import"
    source_sha256: Sha256
    """Of the base file."""
    context_tokens: Annotated[int, Field(ge=3)]
    vocab_size: Annotated[int, Field(ge=2)]
    num_chunks: Annotated[int, Field(ge=1)]
    clip_nats: int | None
    clip_source: Literal["stated", "inferred", "undetermined"]
    largest_span_nats: float
    clipped_targets: Count
    sidecar_sha256: Sha256
    rows: Literal["scale * code"] = "scale * code"
    """What the rows hold: logits up to a constant per row; raw ln p adds `floors` of the sidecar."""

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def header(self) -> KldHeader:
        """The header of the base file."""
        return KldHeader(context_tokens=self.context_tokens, vocab_size=self.vocab_size, num_chunks=self.num_chunks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sidecar:
    """Tokens of the whole file; scale and floor of every row."""

    receipt: ImportReceipt
    tokens: NDArray[np.int32]
    """[num_tokens]"""
    scales: NDArray[np.float32]
    """[num_rows], nats per code."""
    floors: NDArray[np.float32]
    """[num_rows], ln p of code 0."""

    @property
    def labels(self) -> Labels:
        """Labels for scoring: each chunk is one turn."""
        return labels_of(self.receipt.header, self.tokens)


def is_import(index: CaptureIndex) -> bool:
    """Whether a capture was imported from a base file."""
    return index.engine.model_runner == MODEL_RUNNER


def write_sidecar(
    folder: Path, *, tokens: NDArray[np.int32], scales: NDArray[np.float32], floors: NDArray[np.float32]
) -> str:
    """Write the sidecar into `folder`; returns its SHA-256."""
    path = folder / SIDECAR_NAME
    write_tensors(path, {"tokens": tokens, "scales": scales, "floors": floors})
    return sha256_file(path)


def read_sidecar(folder: Path, index: CaptureIndex) -> Sidecar:
    """Read what `folder` keeps beside the chunks of an imported capture.

    Raises:
        InvalidInput: the capture was not imported from a base file.
        VerificationFailed: receipt or sidecar are not those of the index.
    """
    if not is_import(index):
        raise InvalidInput("this capture was not imported from a base file of llama.cpp", where=str(folder))
    path, where = folder / SIDECAR_NAME, str(folder / RECEIPT_NAME)
    if not (folder / RECEIPT_NAME).is_file() or sha256_file(folder / RECEIPT_NAME) != index.receipt_sha256:
        raise VerificationFailed("not the receipt that the index names", where=where, hint=_AGAIN)
    data = (folder / RECEIPT_NAME).read_bytes()
    try:
        strict_json(data, where=where)
        receipt = ImportReceipt.model_validate_json(data)
    except ValidationError as error:
        raise VerificationFailed("not the receipt of an import", where=where, hint=_AGAIN) from error
    if not path.is_file() or sha256_file(path) != receipt.sidecar_sha256:
        raise VerificationFailed("not the file that the receipt names", where=str(path), hint=_AGAIN)
    tensors = open_tensors(path)
    wanted = {
        "tokens": ("I32", (index.num_tokens,)),
        "scales": ("F32", (index.num_rows,)),
        "floors": ("F32", (index.num_rows,)),
    }
    if {name: (entry.dtype, entry.shape) for name, entry in tensors.tensors.items()} != wanted:
        raise VerificationFailed("holds other tensors than an import writes", where=str(path), hint=_AGAIN)
    return Sidecar(receipt=receipt, **{name: tensors.read(name) for name in wanted})
