"""Data of the viewer of forking futures: a session's tokens, a stack's flips and forks, in files of one range each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from suite.branch.file import read_forks
from suite.branch.schema import BRANCHES_NAME, FORKS_NAME, BranchesRecord, Fork, Future, TopToken, parse_branches
from suite.bundle.read import read_file
from suite.compare.entries import LEDGER_NAME
from suite.errors import VerificationFailed
from suite.files import sha256_bytes
from suite.score.classes import FLIP_CLASSES
from suite.score.ledger import Ledger, read_ledger
from suite.site.rendering import script_call
from suite.site.text import visible
from suite.site.token_texts import TokenTexts, find_texts

RANGE_TOKENS = 2_000
"""Tokens of one file."""
BINS = 240
"""Columns of the overview."""
_TOKEN_LIMIT = 120
_TEXT_LIMIT = 4_000
_FUTURE_LIMIT = 1_500
"""Tokens of one future that are shown."""
_TAKE = "futures.take"
SIDES: tuple[str, ...] = ("ref_p_ref_top1", "ref_p_cand_top1", "cand_p_ref_top1", "cand_p_cand_top1")
_SHOWN = (
    *("position", "token_id", "target_id", "turn", "span_kind", "flip", "flip_class", "ref_top1", "cand_top1"),
    *("ref_margin_nats", "kl_ref_cand", *SIDES),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StackRef:
    """A bundle as the data files are made from it; cheap to hand to another process."""

    folder: str
    file_hashes: tuple[tuple[str, str], ...]
    """Name and SHA-256 of its files, as its record names them."""

    @property
    def has_forks(self) -> bool:
        """Whether flips of it were followed."""
        return any(name == BRANCHES_NAME for name, _ in self.file_hashes)


def num_ranges(num_tokens: int) -> int:
    """Number of range files of a session."""
    return -(-num_tokens // RANGE_TOKENS)


@lru_cache(maxsize=3)
def ledger_of(stack: StackRef) -> Ledger:
    """Of the stack's ledger what the viewer shows."""
    return read_ledger(Path(stack.folder) / LEDGER_NAME, names=_SHOWN)


@lru_cache(maxsize=3)
def branches_of(stack: StackRef) -> tuple[BranchesRecord, bytes] | None:
    """The stack's branches with the bytes of its forks; None if no flip was followed.

    Raises:
        VerificationFailed: a file is not the one that the record names.
        InvalidInput: not branches.
    """
    if not stack.has_forks:
        return None
    files = {name: read_file(Path(stack.folder), name) for name in (BRANCHES_NAME, FORKS_NAME)}
    for name, data in files.items():
        if sha256_bytes(data) != dict(stack.file_hashes).get(name):
            raise VerificationFailed("not the file that the record names", where=name)
    return parse_branches(files[BRANCHES_NAME]), files[FORKS_NAME]


def forks_of(stack: StackRef, *, first: int = 0, last: int | None = None) -> list[Fork]:
    """Forks at positions `first` to `last`."""
    found = branches_of(stack)
    return [] if found is None else list(read_forks(found[1], found[0], first=first, last=last))


def vocabulary_of(stack: StackRef) -> dict[int, str]:
    """Id -> text of the tokens whose text is at hand."""
    return _vocabulary(ledger_of(stack).facts.tokens_sha256)


def overview(stack: StackRef) -> list[list[int]]:
    """The flips of each class of `FLIP_CLASSES`, in order, in each of `BINS` equal parts of the session."""
    ledger = ledger_of(stack)
    bins = (ledger.columns["position"] * BINS // ledger.facts.num_tokens).clip(0, BINS - 1)
    classes = ledger.columns["flip_class"]
    return [np.bincount(bins[classes == name], minlength=BINS).tolist() for name in FLIP_CLASSES]


def stack_file(stack: StackRef, stack_id: str) -> bytes:
    """Where a stack's flips and forks lie: `[token, class]` of a flip, tokens of forks, first and last of segments."""
    columns = ledger_of(stack).columns
    at = np.flatnonzero(columns["flip"])
    found = branches_of(stack)
    value = {
        "name": f"{stack_id}/stack",
        "flips": [[int(columns["position"][i]) + 1, FLIP_CLASSES.index(str(columns["flip_class"][i]))] for i in at],
        "overview": overview(stack),
        "segments": [[s.first_position + 1, s.last_position + 1] for s in found[0].segments] if found else [],
        "forks": [fork.position + 1 for fork in forks_of(stack)],
    }
    return script_call(_TAKE, value)


def tokens_file(stack: StackRef, number: int) -> bytes:
    """Range `number` of the session: one entry a token `[position, id, text]`, and the turns and spans of the probes.

    Without texts at hand only the probes' own tokens are named, by id.
    """
    ledger = ledger_of(stack)
    texts = find_texts(ledger.facts.tokens_sha256)
    start, end = number * RANGE_TOKENS, min((number + 1) * RANGE_TOKENS, ledger.facts.num_tokens)
    value: dict[str, Any] = {"name": f"tokens-{number}", "start": start, "end": end}
    if texts is not None:
        value["texts"] = [_token(text) for text in texts.token_texts[start:end]]
    columns = ledger.columns
    inside = (columns["position"] + 1 >= start) & (columns["position"] + 1 < end)
    turns = columns["turn"][inside]
    spans = columns["span_kind"][inside]
    places = columns["position"][inside] + 1
    marks: list[list[Any]] = []
    for place, turn, span in zip(places.tolist(), turns.tolist(), spans.tolist(), strict=True):
        if not marks or marks[-1][1:] != [turn, span]:
            marks.append([place, turn, span])
    value["spans"] = marks
    return script_call(_TAKE, value)


def flips_file(stack: StackRef, stack_id: str, number: int) -> bytes:
    """A stack's flips at the tokens of range `number`.

    One entry a flip: token place (`position + 1`), class, target id and text, both best tokens' id and text, four
    probabilities (reference's of its own, of the candidate's; candidate's of the reference's, of its own), margin and
    KL in nats.
    """
    ledger = ledger_of(stack)
    columns = ledger.columns
    texts = find_texts(ledger.facts.tokens_sha256)
    vocabulary = _vocabulary(ledger.facts.tokens_sha256) if texts is not None else {}
    start, end = number * RANGE_TOKENS, min((number + 1) * RANGE_TOKENS, ledger.facts.num_tokens)
    rows = np.flatnonzero(columns["flip"] & (columns["position"] + 1 >= start) & (columns["position"] + 1 < end))

    def named(token_id: int) -> list[Any]:
        text = vocabulary.get(token_id)
        return [token_id, None if text is None else _token(text)]

    flips = [
        [
            int(columns["position"][i]) + 1,
            FLIP_CLASSES.index(str(columns["flip_class"][i])),
            *(named(int(columns[name][i])) for name in ("target_id", "ref_top1", "cand_top1")),
            [round(float(columns[name][i]), 6) for name in SIDES],
            round(float(columns["ref_margin_nats"][i]), 5),
            round(float(columns["kl_ref_cand"][i]), 6),
        ]
        for i in rows
    ]
    return script_call(_TAKE, {"name": f"{stack_id}/flips-{number}", "flips": flips})


def forks_file(stack: StackRef, stack_id: str, segment: int) -> bytes:
    """The forks of one segment of a stack's branches."""
    found = branches_of(stack)
    assert found is not None
    where = found[0].segments[segment]
    forks = forks_of(stack, first=where.first_position, last=where.last_position)
    return script_call(_TAKE, {"name": f"{stack_id}/forks-{segment}", "forks": [fork_value(fork) for fork in forks]})


def fork_value(fork: Fork) -> dict[str, Any]:
    """One fork as the viewer shows it; all text is made visible here."""
    return {
        "at": fork.position + 1,
        "class": fork.flip_class,
        "turn": fork.turn,
        "span": _token(fork.span_kind),
        "before": _text(fork.turn_text[-600:]),
        "recorded": _text(fork.recorded_text[:600]),
        "reference": _top(fork.reference_top),
        "candidate": _top(fork.candidate_top),
        "used": fork.used,
        "consequence": _consequence(fork.consequence),
        "token_consequence": _consequence(fork.token_consequence),
        "futures": [_future(future) for future in fork.futures],
    }


def _consequence(consequence: Any) -> dict[str, Any] | None:
    if consequence is None:
        return None
    return {
        "name": consequence.name,
        "detail": _text(consequence.detail),
        "reference_at": consequence.reference_at,
        "at": consequence.at,
        "in_reference": consequence.in_reference,
    }


def _top(tokens: Sequence[TopToken]) -> list[list[Any]]:
    return [[token.id, _token(token.text), round(token.p, 6)] for token in tokens]


def _future(future: Future) -> dict[str, Any]:
    literals: dict[str, str] = {}
    wrong: list[list[str]] = []
    missing: list[str] = []
    for call in future.calls:
        if call.literals is None:
            continue
        literals |= dict.fromkeys(map(_token, call.literals.intact), "intact")
        literals |= dict.fromkeys(map(_token, call.literals.invented), "invented")
        literals |= {_token(wrong_one): "mutated" for _, wrong_one in call.literals.mutated}
        wrong += [[_token(right), _token(wrong_one)] for right, wrong_one in call.literals.mutated]
        missing += map(_token, call.literals.missing)
    return {
        "role": future.role,
        "finish": future.finish,
        "verdict": future.verdict,
        "tokens": [_token(text) for text in future.token_texts[:_FUTURE_LIMIT]],
        "num_tokens": len(future.token_ids),
        "states": future.states[:_FUTURE_LIMIT],
        "literals": sorted(literals.items()),
        "mutated": wrong,
        "missing": missing,
        "calls": [[_token(call.name or ""), call.verdict] for call in future.calls],
    }


@lru_cache(maxsize=2)
def _vocabulary(tokens_sha256: str) -> dict[int, str]:
    texts: TokenTexts | None = find_texts(tokens_sha256)
    return {} if texts is None else texts.vocabulary()


def _token(text: str) -> str:
    return visible(text, limit=_TOKEN_LIMIT, lines=True)


def _text(text: str) -> str:
    return visible(text, limit=_TEXT_LIMIT, lines=True)
