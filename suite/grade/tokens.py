"""Feeding a grammar with token ids: a state after every token, whole characters only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from suite.grade.interface import Grammar, State

_WINDOW = 4
_UNFINISHED = "\ufffd"


class TokenFeed:
    """Decodes ids as they come and feeds the grammar.

    Args:
        grammar: Any grammar.
        decode: Ids to text, special tokens kept and no space cleaned up, for instance
            `partial(tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)`.

    A few tokens before the new ones are decoded with them, since some tokenizers write a first token without its space.
    A character that spans tokens is held back until it is whole, at most `_WINDOW` tokens long.
    """

    def __init__(self, grammar: Grammar, decode: Callable[[Sequence[int]], str]) -> None:
        self.grammar = grammar
        self.text = ""
        self._decode = decode
        self._window: list[int] = []
        self._pending: list[int] = []
        self._pieces: list[str] = []

    def feed(self, token_ids: Iterable[int]) -> list[State]:
        """Read ids; one state for each."""
        states = []
        for token_id in token_ids:
            self._pending.append(token_id)
            self._flush(whole_only=True)
            states.append(self.grammar.state)
        return states

    def finish(self) -> str:
        """Feed what was held back; the whole text, for `grade_parsed`."""
        self._flush(whole_only=False)
        self.text = "".join(self._pieces)
        return self.text

    def _flush(self, *, whole_only: bool) -> None:
        if not self._pending:
            return
        before = self._decode(self._window)
        piece = self._decode([*self._window, *self._pending])[len(before) :]
        if whole_only and piece.endswith(_UNFINISHED) and len(self._pending) < _WINDOW:
            return
        self._window = [*self._window, *self._pending][-_WINDOW:]
        # A window that starts in the middle of a character would shift the cut.
        while self._window and self._decode(self._window).startswith(_UNFINISHED):
            self._window.pop(0)
        self._pending.clear()
        self._pieces.append(piece)
        self.grammar.feed(piece)
