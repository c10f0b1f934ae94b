"""Scrubbing of texts: learn every value from all of them, then replace each wherever it stands, encoded or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from suite.errors import RunFailed
from suite.workload.scrub.detectors import DETECTORS
from suite.workload.scrub.interface import Detector, Shape
from suite.workload.scrub.private_map import Entry, PrivateMap
from suite.workload.scrub.pseudonyms import Forge, TokenCounter, ascii_lower
from suite.workload.scrub.views import View, blocks, views

_RUN = re.compile(r"[^\W_]+")
_MAX_DEPTH = 3
_MAX_ROUNDS = 12
_HEAD = 40
_SPREAD_LENGTH = 6
"""Values of this length and more are replaced wherever they stand as whole words; names from 4 on."""


@dataclass(frozen=True, slots=True)
class _Hit:
    start: int
    end: int
    kind: str
    shape: Shape
    rank: int


@dataclass(kw_only=True, slots=True)
class _Words:
    """Finds known strings as whole words, in time that grows with the text alone."""

    by_run: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    """First run of letters and digits -> where it stands in the string, the string's beginning, its length."""

    def add(self, text: str, length: int | None = None) -> None:
        """Look for `text`; with a `length` it is the beginning of a longer one."""
        run = _RUN.search(text)
        if run is not None:
            self.by_run.setdefault(ascii_lower(run[0]), []).append(
                (run.start(), ascii_lower(text), length or len(text))
            )

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Half-open ranges; longer ones first where several begin at one place."""
        lower = ascii_lower(text)
        for run in _RUN.finditer(text):
            found = self.by_run.get(lower[run.start() : run.end()], ())
            for offset, known, length in sorted(found, key=lambda item: -item[2]):
                start = run.start() - offset
                end = start + length
                if start < 0 or end > len(text) or not lower.startswith(known, start):
                    continue
                if not _inside_word(text, start) and not _inside_word(text, end):
                    yield start, end


def _inside_word(text: str, position: int) -> bool:
    return 0 < position < len(text) and all(c.isalnum() for c in text[position - 1 : position + 1])


def _begins_with_escape(text: str, position: int) -> bool:
    """Whether the letter here belongs to a line's end in JSON, and not to the word that follows it."""
    before = position
    while before and text[before - 1] == "\\":
        before -= 1
    return (position - before) % 2 == 1 and text[position] in "bfnrt"


class TextScrubber:
    """Scrubs the texts of one session with one private map."""

    def __init__(
        self,
        private: PrivateMap,
        *,
        counter: TokenCounter | None = None,
        keep: Sequence[str] = (),
        words: Sequence[str] = (),
        frozen: Iterable[str] = (),
        detectors: Sequence[Detector] = DETECTORS,
    ) -> None:
        """Args:
        private: Grows by what is found.
        counter: Keeps token counts where it can.
        keep: Values that stay.
        words: Further values to replace.
        frozen: Pseudonyms that are in the texts already, from `pseudonyms`.
        detectors: What finds values.
        """
        self._private = private
        self._forge = Forge(private.key, counter=counter)
        self._detectors = detectors
        self._keep = {ascii_lower(value) for value in keep}
        self._by_value = {ascii_lower(entry.value): entry for entry in private.entries}
        self._known = _Words()
        self._frozen = _Words()
        self._taken: set[str] = set()
        self.pseudonyms: dict[str, None] = {}
        """Every pseudonym in the texts, in a form for `frozen`."""
        for mark in frozen:
            self._freeze(mark)
        for entry in private.entries:
            self._spread(entry)
            self._freeze(entry.pseudonym)
        for word in words:
            if ascii_lower(word) not in self._keep:
                self._entry(word, "given word", "name")
                self._known.add(word)

    def run(self, texts: Sequence[str]) -> list[str]:
        """The texts, scrubbed until nothing more is found.

        Raises:
            RunFailed: that does not come to an end.
        """
        current = list(texts)
        self._taken.update(run.lower() for text in current for run in _RUN.findall(text))
        for _ in range(_MAX_ROUNDS):
            for text in current:
                self._learn(text)
            done = [self._replace(text) for text in current]
            if done == current:
                return done
            current = done
        raise RunFailed("scrubbing does not come to an end", where="workload scrub", hint="report this session's shape")

    def leftovers(self, texts: Iterable[str]) -> list[str]:
        """Values of the map that still stand somewhere as whole words: none, unless something is wrong."""
        found = []
        for text in texts:
            frozen = self._frozen_mask(text)
            for view in views(text):
                for start, end in self._known.find(view.text):
                    here = range(start, end)
                    if any(view.text[i].isalnum() and not frozen[view.starts[i]] for i in here):
                        found.append(view.text[start:end])
        return [value for value in found if ascii_lower(value) not in self._keep]

    def _freeze(self, pseudonym: str) -> None:
        head, mark, length = pseudonym.partition("…")
        if mark:
            self._frozen.add(head, int(length))
        elif len(pseudonym) > 2 * _HEAD and (run := _RUN.search(pseudonym)) and run.end() < len(pseudonym):
            head = pseudonym[: max(_HEAD, run.end())]  # a whole run of letters and digits, by which it is found
            self._frozen.add(head, len(pseudonym))
            pseudonym = f"{head}…{len(pseudonym)}"
        else:
            self._frozen.add(pseudonym)
        self.pseudonyms[pseudonym] = None

    def _spread(self, entry: Entry) -> None:
        letters = sum(c.isalnum() for c in entry.value)
        if letters >= _SPREAD_LENGTH or (letters >= 3 and not entry.value.isalpha()) or letters >= 4:
            self._known.add(entry.value)

    def _entry(self, value: str, kind: str, shape: Shape) -> Entry:
        key = ascii_lower(value)
        entry = self._by_value.get(key)
        if entry is None:
            pseudonym = self._forge.make(value, shape, self._taken)
            entry = Entry(kind=kind, value=value, pseudonym=pseudonym)
            self._by_value[key] = entry
            self._private.entries.append(entry)
            self._taken.update((ascii_lower(pseudonym), key))
            self._spread(entry)
            self._freeze(pseudonym)
        return entry

    def _glued(self, text: str, hit: _Hit, entry: Entry) -> None:
        """Where the value is the end of a longer word (`AIza…`, `-p…`), that word is known and frozen as well."""
        left, right = hit.start, hit.end
        while left and _inside_word(text, left):
            left -= 1
        while right < len(text) and _inside_word(text, right):
            right += 1
        word = text[left:right]
        if (left, right) == (hit.start, hit.end) or ascii_lower(word) in self._by_value:
            return
        made = _in_case_of(text[hit.start : hit.end], entry.pseudonym)
        whole = Entry(kind=entry.kind, value=word, pseudonym=f"{text[left : hit.start]}{made}{text[hit.end : right]}")
        self._by_value[ascii_lower(word)] = whole
        self._private.entries.append(whole)
        self._spread(whole)
        self._freeze(whole.pseudonym)

    def _learn(self, text: str, depth: int = 0, *, basic: bool = False) -> None:
        frozen = self._frozen_mask(text)
        for view in views(text):
            for hit in self._hits(view, frozen, basic=basic):
                entry = self._entry(view.text[hit.start : hit.end], hit.kind, hit.shape)
                self._glued(view.text, hit, entry)
            for block in blocks(view.text) if depth < _MAX_DEPTH else ():
                self._learn(block.text, depth + 1, basic=block.basic)

    def _frozen_mask(self, text: str, depth: int = 0) -> bytearray:
        """For every character, whether it belongs to a pseudonym in any reading; an encoded block does as a whole."""
        mask = bytearray(len(text))
        for view in views(text):
            for start, end in self._frozen.find(view.text):
                low, high = view.starts[start], view.starts[end]
                mask[low:high] = b"\1" * (high - low)
            for block in blocks(view.text) if depth < _MAX_DEPTH else ():
                if any(self._frozen_mask(block.text, depth + 1)):
                    low, high = view.starts[block.start], view.starts[block.end]
                    mask[low:high] = b"\1" * (high - low)
        return mask

    def _hits(self, view: View, frozen: bytearray, *, basic: bool) -> list[_Hit]:
        """What is to be replaced in one reading: not kept, not frozen, and no two that overlap."""
        text = view.text
        found: list[_Hit] = []
        for rank, detector in enumerate(self._detectors):
            for start, end in detector.find(text):
                start += _begins_with_escape(text, start)
                if start < end:
                    found.append(_Hit(start, end, detector.kind, detector.shape, rank))
        if basic and ":" in text:
            colon = text.index(":")
            found += [_Hit(0, colon, "user name", "name", -1), _Hit(colon + 1, len(text), "password", "text", -1)]
        free = bytearray(not frozen[view.starts[i]] for i in range(len(text)))
        chosen: list[_Hit] = []
        for hit in sorted(found, key=lambda h: (h.rank, h.start - h.end, h.start)):
            if ascii_lower(text[hit.start : hit.end]) in self._keep:
                continue
            for start, end in _free_ranges(free, hit.start, hit.end):
                if any(c.isalnum() for c in text[start:end]):
                    chosen.append(
                        _Hit(
                            start,
                            end,
                            hit.kind,
                            hit.shape if (start, end) == (hit.start, hit.end) else "text",
                            hit.rank,
                        )
                    )
                    free[start:end] = bytes(end - start)
        return chosen

    def _replace(self, text: str, depth: int = 0, *, basic: bool = False) -> str:
        made: list[str | None] = [None] * len(text)
        touched = bytearray(len(text))
        for view in views(text) if depth < _MAX_DEPTH else ():
            for block in blocks(view.text):
                low, high = view.starts[block.start], view.starts[block.end]
                if any(touched[low:high]):
                    continue
                inner = self._replace(block.text, depth + 1, basic=block.basic)
                encoded = block.encode(inner)
                if inner != block.text and len(encoded) == len(block.source):
                    touched[low:high] = b"\1" * (high - low)
                    self._write(made, view, block.start, block.source, encoded)
        frozen = self._frozen_mask(text)
        places: list[tuple[int, int, View, str]] = []
        for view in views(text):
            hits = [(hit.start, hit.end) for hit in self._hits(view, frozen, basic=basic)]
            known = self._known.find(view.text)
            spread = [(a, b) for a, b in known if not any(frozen[view.starts[a] : view.starts[b]])]
            places += [(start - end, start, view, view.text[start:end]) for start, end in [*hits, *spread]]
        # The longest first, in whichever reading it was found: a part of it may be a value of its own elsewhere.
        for _, start, view, value in sorted(places, key=lambda place: place[0]):
            entry = self._by_value.get(ascii_lower(value))
            low, high = view.starts[start], view.starts[start + len(value)]
            if entry is None or ascii_lower(value) in self._keep or any(touched[low:high]):
                continue
            touched[low:high] = b"\1" * (high - low)
            entry.count += 1
            self._write(made, view, start, value, _in_case_of(value, entry.pseudonym))
        return "".join(text[i] if new is None else new for i, new in enumerate(made))

    @staticmethod
    def _write(made: list[str | None], view: View, start: int, value: str, pseudonym: str) -> None:
        for offset, (old, new) in enumerate(zip(value, pseudonym, strict=True)):
            if old != new:
                low, high = view.starts[start + offset], view.starts[start + offset + 1]
                made[low:high] = [view.spell(new), *([""] * (high - low - 1))]


def _free_ranges(free: bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
    edges = [start, *(i for i in range(start + 1, end) if free[i] != free[i - 1]), end]
    for low, high in pairwise(edges):
        if low < high and free[low]:
            yield low, high


def _in_case_of(value: str, pseudonym: str) -> str:
    """The pseudonym with capital letters where this occurrence has them, which may differ from the first one."""
    return "".join(
        new.upper() if "A" <= old <= "Z" else new.lower() if "a" <= old <= "z" else new
        for old, new in zip(value, pseudonym, strict=True)
    )
