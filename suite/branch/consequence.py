"""What became of a fork: the candidate's future, measured against the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.branch.schema import ENDED, Consequence, ConsequenceName, Future
from suite.grade.record import CallRecord
from suite.grade.tools import same_json

SOON_TOKENS = 64
"""Within so many tokens the same text counts as the same again."""
KEPT_TOKENS = 8
"""So many tokens must then be the same, where both futures have ended; a shared full stop is no return."""
KEPT_OPEN_TOKENS = 32
"""So many where one of them has not ended."""

_FAULTS: dict[str, ConsequenceName] = {
    "not closed": "broken envelope",
    "not parsed": "broken envelope",
    "call in reasoning": "broken envelope",
    "unknown name": "wrong command",
    "schema invalid": "wrong command",
    "literals changed": "wrong literal",
    "wrong command": "wrong command",
}
_DETAIL_CHARACTERS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """From where on two futures are the same."""

    reference_at: int
    """Tokens of the reference's future before it."""
    at: int
    """Tokens of the other one before it."""


def consequence_of(other: Future, reference: Future | None) -> Consequence:
    """What a future comes to.

    Args:
        other: Of the candidate, or of the reference after the candidate's token.
        reference: Of the reference after its own token; None where it could not be run: nothing is absorbed.
    """
    if reference is not None and (absorbed := _absorbed(other, reference)) is not None:
        return absorbed
    if (name := fault_of(other)) is not None:
        shared = reference is not None and fault_of(reference) == name
        return Consequence(name=name, in_reference=shared, detail=_detail(other))
    if other.finish not in ENDED or reference is None or reference.finish not in ENDED:
        return Consequence(name="undecided", detail=_why_open(other, reference))
    if other.calls:
        return Consequence(name="valid but different")
    if reference.calls:
        return Consequence(name="wrong command", detail="no call, where the reference makes one")
    return Consequence(name="other words")


def fault_of(future: Future) -> ConsequenceName | None:
    """What a future's own calls are held to be; None where nothing is held against them."""
    changed = any(call.literals.mutated or call.literals.missing for call in future.calls)
    if future.verdict == "schema invalid" and changed:
        # `page_size` that became `size` is no other command, but a changed word of it.
        return "wrong literal"
    return _FAULTS.get(future.verdict)


def meeting(reference: Future, other: Future) -> Meeting | None:
    """Where two futures come together for good, within `SOON_TOKENS`; None where they do not.

    Two ended futures must also end together. Of open ones, that which is longer may go on.
    """
    ours, theirs = reference.token_ids, other.token_ids
    ended, other_ended = reference.finish in ENDED, other.finish in ENDED
    needed = KEPT_TOKENS if ended and other_ended else KEPT_OPEN_TOKENS
    best: Meeting | None = None
    for shift in range(-SOON_TOKENS, SOON_TOKENS + 1):
        end = min(len(ours), len(theirs) - shift)
        # What has ended must not end before the other one does.
        if (ended and end < len(ours) and other_ended) or (ended and end == len(ours) < len(theirs) - shift):
            continue
        if other_ended and end == len(theirs) - shift < len(ours):
            continue
        start = end
        first = max(0, -shift)
        while start > first and ours[start - 1] == theirs[start - 1 + shift]:
            start -= 1
        found = Meeting(reference_at=start, at=start + shift)
        if end - start < needed or max(found.reference_at, found.at) > SOON_TOKENS:
            continue
        if best is None or max(found.reference_at, found.at) < max(best.reference_at, best.at):
            best = found
    return best


def same_calls(ours: Sequence[CallRecord], theirs: Sequence[CallRecord]) -> bool:
    """Whether both are the same calls, as JSON values, and every one of them could be read."""
    return len(ours) == len(theirs) and all(
        a.arguments is not None and a.name == b.name and same_json(a.arguments, b.arguments)
        for a, b in zip(ours, theirs, strict=True)
    )


def _absorbed(other: Future, reference: Future) -> Consequence | None:
    meet = meeting(reference, other)
    if other.finish in ENDED and reference.finish in ENDED and (other.calls or reference.calls):
        # The same text around a changed value is no return: calls are compared by what they say.
        if not same_calls(other.calls, reference.calls):
            return None
        if meet is None:
            return Consequence(name="absorbed", detail="the same calls, after other words")
    elif meet is None or not (_outside(reference, meet.reference_at) and _outside(other, meet.at)):
        return None
    return Consequence(name="absorbed", reference_at=meet.reference_at, at=meet.at)


def _outside(future: Future, count: int) -> bool:
    """Whether its first `count` tokens say nothing inside a call."""
    return set(future.states[:count]) <= {"o"}


def _detail(future: Future) -> str:
    call = next((call for call in future.calls if call.verdict == future.verdict), None)
    if call is None:
        return future.verdict
    if fault_of(future) == "wrong literal" and call.literals.mutated:
        source, mutant = call.literals.mutated[0]
        return _short(f"{mutant} stands for {source}")
    if fault_of(future) == "wrong literal" and call.literals.missing:
        return _short(f"{call.literals.missing[0]} is missing")
    return _short(future.verdict if call.first_fault is None else call.first_fault.message)


def _why_open(other: Future, reference: Future | None) -> str:
    if other.finish not in ENDED:
        return f"the future is open ({other.finish})"
    if reference is None:
        return "the reference could not be run here"
    return f"the reference's future is open ({reference.finish})"


def _short(text: str) -> str:
    return text if len(text) <= _DETAIL_CHARACTERS else f"{text[: _DETAIL_CHARACTERS - 3]}..."
