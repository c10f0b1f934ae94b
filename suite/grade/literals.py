"""Literals of a call against those of its context: intact, missing, mutated, invented.

Compared byte for byte as whole words. What a context does not hold is looked up among what it holds: a near one is the
source of a mutation, otherwise the literal is invented. Only literals that must survive can be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.grade.align import Candidates
from suite.grade.json_reader import JsonNumber
from suite.grade.words import Word, kind_of, parts, scan
from suite.workload.literals import occurrences

MAX_ALIGNED = 256
"""Words of one call that are looked up; a call with more strange words is broken anyway."""
COMMAND_KEYS = frozenset({"command", "commands", "cmd", "lines", "script", "statement"})
_COMMAND = re.compile(r"(?:^|[\n;|]|&&)[ \t]{0,16}([a-z][a-z0-9_-]+)(?=\s|$)")
_PROMPT = re.compile(r"(?:^|\n)[\w.@:~/-]{0,40}[$#>] ?([a-z][a-z0-9_-]+)|`([a-z][a-z0-9_-]+)[ `]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Literals:
    """The four lists of one call."""

    intact: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    mutated: tuple[tuple[str, str], ...] = ()
    """Pairs of source and what became of it."""
    invented: tuple[str, ...] = ()
    """In no context. Not held against a call: a new address may be right."""

    def to_json(self) -> dict[str, Any]:
        """As `suite grade --json` prints it."""
        return {
            "intact": list(self.intact),
            "missing": list(self.missing),
            "mutated": [list(pair) for pair in self.mutated],
            "invented": list(self.invented),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class CallText:
    """What a call says, for comparison."""

    values: tuple[str, ...]
    keys: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(kw_only=True, slots=True)
class Context:
    """The literals that a call may use, and those it must."""

    required: tuple[str, ...] = ()
    known: set[str] = field(default_factory=set)
    """Every word of the context, plain ones and parts of literals included."""
    found: dict[str, str] = field(default_factory=dict)
    """Literals with their kinds, the latest last."""
    commands: dict[str, str] = field(default_factory=dict)
    _candidates: Candidates | None = None
    _command_candidates: Candidates | None = None

    def add_text(self, text: str) -> None:
        """Everything in a text becomes known."""
        for word, kind in scan(text):
            self.known.add(word)
            if kind:
                self._add(Word(word, kind))
        for match in _PROMPT.finditer(text):
            self.commands[match[1] or match[2]] = "command"
        self._candidates = self._command_candidates = None

    def add_words(self, words: Iterable[str]) -> None:
        """Names that may be used: of tools and arguments."""
        for word in words:
            self.known.add(word)
            if kind := kind_of(word):
                self._add(Word(word, kind))
        self._candidates = None

    def add_call(self, arguments: Any) -> None:
        """A call that was made before: its values, keys and command words become known."""
        text = text_of(arguments)
        for value in text.values:
            self.add_text(value)
        self.add_words(text.keys)
        for key in text.keys:
            self._add(Word(key, kind_of(key) or "identifier"))
        self.commands.update(dict.fromkeys(text.commands, "command"))

    def _add(self, word: Word) -> None:
        self.known.add(word.text)
        if word.kind != "number" or len(word.text) >= 3:
            # Moved to the end: the latest mention is the likeliest source.
            self.found.pop(word.text, None)
            self.found[word.text] = word.kind
        for index, part in enumerate(parts(*word)):
            self.known.add(part)
            kind = "port" if word.kind in ("endpoint", "url") and index == 1 and part.isdecimal() else kind_of(part)
            if kind not in ("", "number"):
                self.found.setdefault(part, kind)

    def nearest(self, word: Word) -> str | None:
        """The literal of the context that a word most likely comes from."""
        if self._candidates is None:
            self._candidates = Candidates(self.found.items())
        return self._candidates.nearest(*word)

    def nearest_command(self, word: str) -> str | None:
        """The same among command words."""
        if self._command_candidates is None:
            self._command_candidates = Candidates(self.commands.items())
        return self._command_candidates.nearest(word, "command")


def listed(required: Sequence[str]) -> Context:
    """A context of literals that must survive, and nothing else."""
    context = Context(required=tuple(dict.fromkeys(required)))
    for literal in required:
        context.add_text(literal)
        context.known.add(literal)
    return context


def text_of(arguments: Any) -> CallText:
    """The texts in a call's arguments: string and number values, keys at any depth, first words of commands."""
    values: list[str] = []
    keys: dict[str, None] = {}
    commands: dict[str, None] = {}
    for key, value in _leaves(arguments, ""):
        if value is None:
            keys[key] = None
            continue
        # A port is a number that stands behind its name.
        values.append(f"{key} {value}" if value.isdecimal() and "port" in key.lower() else value)
        if key in COMMAND_KEYS:
            commands.update(dict.fromkeys(_COMMAND.findall(value)))
    return CallText(values=tuple(values), keys=tuple(keys), commands=tuple(commands))


def _leaves(root: Any, name: str) -> Iterator[tuple[str, str | None]]:
    """Pairs of key and text, and (key, None) for each key itself, in order; without recursion."""
    stack: list[tuple[str, Any]] = [(name, root)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            for inner in value:
                yield inner, None
            stack.extend(reversed(value.items()))
        elif isinstance(value, list):
            if value and all(type(item) is int for item in value):
                yield key, " ".join(map(str, value))
                continue
            stack.extend((key, item) for item in reversed(value))
        elif isinstance(value, str):
            yield key, value
        elif isinstance(value, JsonNumber):
            yield key, value.written
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield key, str(value)


def compare(text: CallText, context: Context, *, tool_words: frozenset[str] = frozenset()) -> Literals:
    """Compare a call with its context. Linear in the call; alignment is bounded by `MAX_ALIGNED` words."""
    plain: dict[str, str] = {}
    used: dict[Word, None] = {}
    # One text: a value ends no word of its neighbour, and many small values cost no more than a large one.
    joined = "\n".join(text.values)
    for item in scan(joined):
        plain[item[0]] = item[1]
        if item[1]:
            used[Word(*item)] = None
    everything = (joined, *text.keys)
    intact: dict[str, None] = {}
    lost: list[str] = []
    for literal in context.required:
        if literal in plain or literal in text.keys or _stands(literal, everything):
            intact[literal] = None
        else:
            lost.append(literal)
    mutated: dict[tuple[str, str], None] = {}
    invented: dict[str, None] = {}
    sources = Candidates((literal, kind_of(literal) or "identifier") for literal in lost)
    budget = MAX_ALIGNED
    for word in used:
        if word.text in context.known or word.text in tool_words:
            if word.kind != "number":
                intact[word.text] = None
            continue
        if _composed(word, context):
            continue
        budget -= 1
        source = None
        if budget >= 0:
            source = sources.nearest(*word)
            if source is None and word.kind != "number":
                source = context.nearest(word)
        if source is not None:
            mutated[source, word.text] = None
        elif word.kind == "network" and word.text.split("/")[0] in context.known:
            continue
        elif word.kind != "number":
            invented[word.text] = None
    for key in text.keys:
        if key not in context.known and key not in tool_words and (budget := budget - 1) >= 0:
            word = Word(key, kind_of(key) or "identifier")
            if (source := sources.nearest(*word) or context.nearest(word)) is not None:
                mutated[source, key] = None
    for command in text.commands:
        if command in context.known or command in context.commands or (budget := budget - 1) < 0:
            continue
        if (source := context.nearest_command(command)) is not None:
            mutated[source, command] = None
    missing = _settle(lost, mutated, intact, plain | {key: kind_of(key) or "identifier" for key in text.keys})
    return Literals(intact=tuple(intact), missing=missing, mutated=tuple(mutated), invented=tuple(invented))


def _settle(
    lost: Sequence[str], mutated: dict[tuple[str, str], None], intact: dict[str, None], words: Mapping[str, str]
) -> tuple[str, ...]:
    """Look for what became of each required literal that no strange word explains; returns the missing ones."""
    explained = {source for source, _ in mutated}
    taken = {mutant for _, mutant in mutated}
    rest = [item for item in lost if item not in explained]
    if not rest:
        return ()
    ordinary = Candidates((word, kind) for word, kind in words.items() if word not in taken and word not in rest)
    missing = []
    for number, literal in enumerate(rest):
        mutant = ordinary.nearest(literal, kind_of(literal) or "identifier") if number < MAX_ALIGNED else None
        if mutant is None:
            missing.append(literal)
        else:
            mutated[literal, mutant] = None
            # It stands there, but not for itself.
            intact.pop(mutant, None)
    return tuple(missing)


def _stands(literal: str, texts: Sequence[str]) -> bool:
    return any(literal in text and next(occurrences(literal, text), None) is not None for text in texts)


def _composed(word: Word, context: Context) -> bool:
    """Whether a literal is put together from known parts, as a URL is from a host and a path."""
    if word.kind == "network":
        return False
    pieces = parts(*word)
    return bool(pieces) and all(
        piece in context.known or (piece.startswith("/") and _composed(Word(piece, "path"), context))
        for piece in pieces
    )
