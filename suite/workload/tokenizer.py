"""A model's tokenizer: loading it from a folder, naming it by hash, and the exact bytes of each of its tokens."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import canonical_json, sha256_bytes, sha256_file

TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "spiece.model",
    "tekken.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
"""Files that decide token ids. `chat_template.jinja` is not among them: it has its own hash."""

_BYTE_PIECE_LENGTH = len("<0x0A>")


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedToken:
    """A token that stands outside the learnt vocabulary, such as `<|im_end|>`."""

    text: str
    special: bool
    takes_space_before: bool
    takes_space_after: bool


class Tokenizer:
    """A loaded tokenizer with its folder's hash."""

    def __init__(self, backend: Any, *, folder: Path) -> None:
        self.backend = backend
        """The `transformers` tokenizer."""
        self.folder = folder
        self.sha256 = hash_tokenizer(folder)
        self.added = {
            int(token_id): AddedToken(
                text=token.content,
                special=token.special,
                takes_space_before=token.lstrip,
                takes_space_after=token.rstrip,
            )
            for token_id, token in backend.added_tokens_decoder.items()
        }
        self._pieces = _pieces_for(backend, folder)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of `text`, nothing added; special tokens in it become their ids."""
        return tuple(self.backend(text, add_special_tokens=False)["input_ids"])

    def pieces(self, token_ids: Sequence[int]) -> list[bytes]:
        """The bytes that each token spells, white space that an added token takes in left aside."""
        tokens = self.backend.convert_ids_to_tokens(list(token_ids))
        return [
            added.text.encode() if (added := self.added.get(token_id)) else self._pieces(token)
            for token_id, token in zip(token_ids, tokens, strict=True)
        ]

    def starts(self, text: str, token_ids: Sequence[int]) -> list[int]:
        """Where each token starts in the UTF-8 bytes of `text`; one more entry than tokens, the last is the end.

        Raises:
            NotReproduced: the tokens' own bytes, joined, are not the text.
        """
        data = text.encode()
        tokens = self.backend.convert_ids_to_tokens(list(token_ids))
        starts = []
        position = 0
        for index, (token_id, token) in enumerate(zip(token_ids, tokens, strict=True)):
            starts.append(position)
            added = self.added.get(token_id)
            piece = added.text.encode() if added else self._pieces(token)
            if added and added.takes_space_before and not data.startswith(piece, position):
                position = _skip_space(data, position)
            if index == 0 and piece[:1] == b" " and data[:1] != b" ":
                piece = piece[1:]  # some vocabularies put a space before the first word
            if not data.startswith(piece, position):
                raise NotReproduced(position=len(data[:position].decode(errors="replace")), token=str(token))
            position += len(piece)
            if added and added.takes_space_after:
                position = _skip_space(data, position)
        if position != len(data):
            raise NotReproduced(position=len(data[:position].decode(errors="replace")), token="")
        return [*starts, position]


class NotReproduced(Exception):
    """Tokens do not spell the text they are said to come from."""

    def __init__(self, *, position: int, token: str) -> None:
        super().__init__(f"character {position}, token {token!r}")
        self.position = position


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer of a model folder, without network and without remote code.

    Raises:
        MissingPrerequisite: the folder or its tokenizer files are absent.
        InvalidInput: the files cannot be used.
    """
    if not folder.is_dir():
        raise MissingPrerequisite(
            "no such model folder", where=str(folder), hint="give a folder that holds tokenizer.json"
        )
    if not (folder / "tokenizer.json").is_file():
        raise MissingPrerequisite(
            "the folder holds no tokenizer.json",
            where=str(folder),
            hint="save the model with a fast tokenizer: AutoTokenizer.from_pretrained(…).save_pretrained(…)",
        )
    auto = _auto_tokenizer()
    try:
        backend = auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library raises bare Exception for a damaged tokenizer.json
        raise InvalidInput(f"the tokenizer cannot be loaded: {error}", where=str(folder)) from error
    if not getattr(backend, "is_fast", False):
        raise InvalidInput(
            "only tokenizers with a tokenizer.json are supported", where=str(folder), hint="convert it to a fast one"
        )
    return Tokenizer(backend, folder=folder)


def _auto_tokenizer() -> Any:
    # The library warns at its first import that it found no torch, which tokenizers do not need.
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        from transformers import AutoTokenizer
    finally:
        logging.disable(level)
    return AutoTokenizer


def hash_tokenizer(folder: Path) -> str:
    """SHA-256 of the canonical JSON `{file name: its SHA-256}` over those of `TOKENIZER_FILES` that exist.

    Raises:
        MissingPrerequisite: none exists.
    """
    hashes = {name: sha256_file(folder / name) for name in TOKENIZER_FILES if (folder / name).is_file()}
    if not hashes:
        raise MissingPrerequisite("the folder holds no tokenizer", where=str(folder))
    return sha256_bytes(canonical_json(hashes))


def _skip_space(data: bytes, position: int) -> int:
    while position < len(data) and data[position : position + 1].isspace():
        position += 1
    return position


def _pieces_for(backend: Any, folder: Path) -> Any:
    state = json.loads(backend.backend_tokenizer.decoder.__getstate__()) if backend.backend_tokenizer.decoder else {}
    decoders = [item["type"] for item in state.get("decoders", [state]) if "type" in item]
    if "ByteLevel" in decoders:
        return _ByteLevelPieces()
    if "ByteFallback" in decoders or "Metaspace" in decoders:
        return _sentencepiece_piece
    raise InvalidInput(
        f"tokens of this kind cannot be turned back into exact text (decoder: {', '.join(decoders) or 'none'})",
        where=str(folder),
        hint="byte-level BPE and SentencePiece tokenizers are supported",
    )


def _sentencepiece_piece(token: str) -> bytes:
    if len(token) == _BYTE_PIECE_LENGTH and token.startswith("<0x") and token.endswith(">"):
        return bytes.fromhex(token[3:5])
    return token.replace("▁", " ").encode()


class _ByteLevelPieces:
    """Byte-level BPE writes every byte as one printable character: itself where printable, else from U+0100 up."""

    def __init__(self) -> None:
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        self._bytes = {chr(value): value for value in printable}
        others = (value for value in range(256) if value not in set(printable))
        self._bytes.update({chr(0x100 + offset): value for offset, value in enumerate(others)})

    def __call__(self, token: str) -> bytes:
        try:
            return bytes(self._bytes[character] for character in token)
        except KeyError:
            return token.encode()
