"""Scrubbing of a whole session: every text of it, its tools, arguments and marks, in one way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suite import __version__
from suite.errors import RunFailed
from suite.untyped import Json
from suite.workload.checks import message_texts
from suite.workload.literals import occurrences
from suite.workload.scrub.private_map import PrivateMap
from suite.workload.scrub.pseudonyms import TokenCounter
from suite.workload.scrub.text import TextScrubber
from suite.workload.session import Session, parse_session


@dataclass(frozen=True, kw_only=True, slots=True)
class ScrubResult:
    """A scrubbed session."""

    session: Session
    found: tuple[tuple[str, int, int], ...]
    """Kind, number of values, number of places; most places first."""
    notes: tuple[str, ...]
    num_tokens: tuple[int, int] | None
    """Tokens of all texts before and after, with a tokenizer."""


def scrub_session(
    session: Session,
    private: PrivateMap,
    *,
    counter: TokenCounter | None = None,
    keep: Sequence[str] = (),
    words: Sequence[str] = (),
) -> ScrubResult:
    """Replace what is private; `private` grows by it. Recorded token ids are dropped, since they spell the old text.

    Args:
        session: What to scrub.
        private: Earlier values and their pseudonyms, and the key.
        counter: Keeps token counts where it can.
        keep: Values that stay.
        words: Further values to replace.

    Raises:
        RunFailed: a known value would be left.
    """
    before = {entry.value: entry.count for entry in private.entries}
    earlier = session.provenance.scrubbed
    scrubber = TextScrubber(
        private, counter=counter, keep=keep, words=words, frozen=earlier.pseudonyms if earlier else ()
    )
    value = session.model_dump(mode="json", exclude_none=True)
    value.pop("recorded", None)
    value["provenance"].pop("scrubbed", None)
    marks = value.pop("marks", [])
    texts = _Texts()
    texts.walk(value["messages"], skip=("role", "id", "type", "tool_call_id"))
    texts.walk(value["tools"], skip=("type", "name", "required"))
    texts.walk(value["chat_template_kwargs"])
    texts.walk(value["provenance"], skip=("kind", "generator", "episodes"))
    texts.walk([mark["right_commands"] for mark in marks], skip=("name",))
    texts.walk(marks, skip=("right_commands",))
    done = scrubber.run([text for text, _ in texts.found])
    for new, (_, put) in zip(done, texts.found, strict=True):
        put(new)
    notes = ["the recorded token ids were dropped: they spell the text before scrubbing"] if session.recorded else []
    value["provenance"]["scrubbed"] = {
        "generator": f"suite {__version__}",
        "pseudonyms": sorted(scrubber.pseudonyms),
    }
    scrubbed = _with_marks(session, value, marks, notes)
    if left := scrubber.leftovers(done):
        raise RunFailed(f"{len(left)} values would be left in the text", where="workload scrub", hint="report this")
    return ScrubResult(
        session=scrubbed,
        found=_found(private, before),
        notes=tuple(notes),
        num_tokens=None
        if counter is None
        else (sum(counter.count(t) for t, _ in texts.found), sum(counter.count(t) for t in done)),
    )


class _Texts:
    """Every text of nested JSON values, with a way to put another in its place."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Any]] = []

    def walk(self, value: Any, skip: Sequence[str] = ()) -> None:
        """Take the string leaves; keys in `skip` are left alone."""
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            if key in skip and not isinstance(item, dict):  # a tool's own argument may have such a name
                continue
            if isinstance(item, str):
                self.found.append((item, _putter(value, key)))
            else:
                self.walk(item, skip)


def _putter(container: Any, key: Any) -> Any:
    def put(text: str) -> None:
        container[key] = text

    return put


def _with_marks(session: Session, value: Json, marks: list[Json], notes: list[str]) -> Session:
    """Put the marks back. A marked literal that was part of a longer private value is taken from where it stood."""
    bare = parse_session(json.dumps({**value, "marks": []}, ensure_ascii=False).encode(), where=session.name)
    kept: list[Json] = []
    for old, new in zip(session.marks, marks, strict=True):
        before, after = message_texts(session.messages[old.message]), message_texts(bare.messages[old.message])
        literals = []
        for literal, made in zip(old.must_survive, new.get("must_survive", []), strict=True):
            if any(next(occurrences(made, text), None) for text in after):
                literals.append(made)
            elif (moved := _at_its_place(literal, before, after)) is not None:
                literals.append(moved)
            else:
                notes.append(f"message {old.message}: one marked literal could not be carried over and is unmarked")
        kept.append({**new, "must_survive": literals})
    return parse_session(json.dumps({**value, "marks": kept}, ensure_ascii=False).encode(), where=session.name)


def _at_its_place(literal: str, before: Sequence[str], after: Sequence[str]) -> str | None:
    for old, new in zip(before, after, strict=True):
        if len(old) != len(new):
            continue
        for start, end in occurrences(literal, old):
            if next(occurrences(new[start:end], new), None) is not None:
                return new[start:end]
    return None


def _found(private: PrivateMap, before: dict[str, int]) -> tuple[tuple[str, int, int], ...]:
    values: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for entry in private.entries:
        added = entry.count - before.get(entry.value, 0)
        if added:
            values[entry.kind] += 1
            places[entry.kind] += added
    return tuple((kind, values[kind], count) for kind, count in places.most_common())
