"""Token counts for pseudonyms, from a real tokenizer."""

from __future__ import annotations

from suite.workload.scrub.pseudonyms import shape_of
from suite.workload.tokenizer import Tokenizer


class TokenizerCounter:
    """Counts tokens and offers words of the tokenizer's own vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._shapes: dict[str, list[str]] | None = None

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        return len(self._tokenizer.encode(text))

    def split(self, text: str) -> list[str]:
        """The tokens as text."""
        pieces = self._tokenizer.pieces(self._tokenizer.encode(text))
        return [piece.decode(errors="replace") for piece in pieces]

    def words(self, shape: str) -> list[str]:
        """Tokens of one shape, in the order of their text."""
        if self._shapes is None:
            self._shapes = {}
            ids = list(range(len(self._tokenizer.backend)))
            for token_id, piece in zip(ids, self._tokenizer.pieces(ids), strict=True):
                if token_id not in self._tokenizer.added and piece.isascii() and piece.isalnum():
                    text = piece.decode()
                    self._shapes.setdefault(shape_of(text), []).append(text)
            for words in self._shapes.values():
                words.sort()
        return self._shapes.get(shape, [])
