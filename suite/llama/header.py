"""The header of a base file, and every size that follows from it.

Layout, little-endian: `_logits_`, int32 context, vocabulary, chunks; context · chunks int32 token ids; then per chunk
R = context - 1 - context // 2 rows of float32 scale, float32 floor, one uint16 code per id and one more if their number
is odd. Row i of a chunk is the distribution of token context // 2 + i + 1 of that chunk. Token ids are those before the
program put BOS in the first place of each chunk; that place is never a target.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from suite.errors import InvalidInput

MAGIC = b"_logits_"
HEADER_BYTES = 20

_MAX_TOKENS = 1 << 24
_MAX_VOCAB = 1 << 24
_MAX_CHUNKS = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class KldHeader:
    """The three numbers of a base file."""

    context_tokens: int
    """Tokens per chunk; every chunk is a context of its own."""
    vocab_size: int
    num_chunks: int

    @property
    def rows_per_chunk(self) -> int:
        """Rows of one chunk: the second half of its context, without the last place, which has no target."""
        return self.context_tokens - 1 - self.first_row_place

    @property
    def first_row_place(self) -> int:
        """Place in the chunk of its first row."""
        return self.context_tokens // 2

    @property
    def num_rows(self) -> int:
        """Rows of the whole file."""
        return self.rows_per_chunk * self.num_chunks

    @property
    def num_tokens(self) -> int:
        """Tokens of the whole file."""
        return self.context_tokens * self.num_chunks

    @property
    def row_items(self) -> int:
        """uint16 items of one row: four of scale and floor, the codes, and a pad if the vocabulary is odd."""
        return 4 + 2 * ((self.vocab_size + 1) // 2)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return 2 * self.row_items

    @property
    def rows_offset_bytes(self) -> int:
        """Where the first row begins."""
        return HEADER_BYTES + 4 * self.num_tokens

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the rows of one chunk."""
        return self.rows_per_chunk * self.row_bytes

    @property
    def file_bytes(self) -> int:
        """Size of a whole file."""
        return self.rows_offset_bytes + self.num_chunks * self.chunk_bytes

    def to_bytes(self) -> bytes:
        """The first 20 bytes of the file."""
        return MAGIC + struct.pack("<3i", self.context_tokens, self.vocab_size, self.num_chunks)


def parse_header(data: bytes, *, size_bytes: int, where: str) -> KldHeader:
    """Check the first 20 bytes of a file of `size_bytes`; nothing is allocated from what they claim.

    Raises:
        InvalidInput: not such a file, a number out of range, or a size that does not follow from the header.
    """
    if data[: len(MAGIC)] != MAGIC or len(data) < HEADER_BYTES:
        raise InvalidInput(
            "not a file that `llama-perplexity --kl-divergence-base` writes: it does not begin with _logits_",
            where=where,
        )
    context, vocab, chunks = struct.unpack("<3i", data[len(MAGIC) : HEADER_BYTES])
    limits = (
        ("context", context, 3, _MAX_TOKENS),
        ("vocabulary", vocab, 2, _MAX_VOCAB),
        ("chunk", chunks, 1, _MAX_CHUNKS),
    )
    for name, value, low, high in limits:
        if not low <= value <= high:
            raise InvalidInput(f"a {name} count of {value:,} is impossible; {low:,} to {high:,} are read", where=where)
    if context * chunks > _MAX_TOKENS:
        raise InvalidInput(f"{context * chunks:,} tokens are more than the {_MAX_TOKENS:,} that are read", where=where)
    header = KldHeader(context_tokens=context, vocab_size=vocab, num_chunks=chunks)
    if size_bytes < header.file_bytes:
        whole = max(0, size_bytes - header.rows_offset_bytes) // header.chunk_bytes
        raise InvalidInput(
            f"holds {size_bytes:,} bytes where its header speaks of {header.file_bytes:,}: {whole} of {chunks} chunks "
            "are whole",
            where=where,
            hint="llama-perplexity was interrupted, or the copy is not complete: write the file again",
        )
    if size_bytes > header.file_bytes:
        raise InvalidInput(
            f"{size_bytes - header.file_bytes:,} bytes follow the last of its {chunks} chunks",
            where=where,
            hint="the header does not belong to this file: write it again",
        )
    return header
