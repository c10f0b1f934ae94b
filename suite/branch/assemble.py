"""From what the engines wrote to forks: futures read, candidates named, consequences told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.branch.consequence import consequence_of
from suite.branch.judge import Judge, Place, RawFuture
from suite.branch.schema import Fork, Future, Role, TopToken
from suite.score.ledger import Ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What one stack's engine wrote, as `suite.agent.branch` leaves it."""

    roots: Mapping[int, Mapping[str, Any]]
    """Position -> its first token."""
    futures: Mapping[tuple[int, bool], Mapping[str, Any]]
    """Position, and whether the first token was given -> what was continued."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Side:
        """From the agent's `futures.json`."""
        return cls(
            roots={root["position"]: root for root in result["roots"]},
            futures={(future["position"], future["given"]): future for future in result["futures"]},
        )

    def own(self, position: int, role: Role) -> RawFuture:
        """The stack's future after its own winner, continued or not."""
        root = self.roots[position]
        found = self.futures.get((position, False))
        if found is None:
            found = {**root, "token_ids": [root["winner"]], "finish": "not_continued"}
        return _raw(role, found, engine_token_id=root["token"])

    def given(self, position: int) -> RawFuture | None:
        """The stack's future after the other stack's token; None where it was not written."""
        found = self.futures.get((position, True))
        return None if found is None else _raw("reference_candidate_token", found, engine_token_id=None)


def assemble(
    ledger: Ledger,
    rows: Sequence[int],
    *,
    judge: Judge,
    candidate: Side,
    reference: Side | None,
    top_tokens: Mapping[str, Sequence[tuple[TopToken, ...]]],
) -> tuple[Fork, ...]:
    """One fork for each of `rows`.

    Args:
        ledger: Of both captures.
        rows: Rows that were followed, in order.
        judge: Of the session.
        candidate: What the candidate wrote.
        reference: What the reference wrote; None where it could not be run.
        top_tokens: For `reference` and `candidate`, the best tokens at each of `rows`.
    """
    columns = ledger.columns
    forks = []
    for number, row in enumerate(rows):
        position = int(columns["position"][row])
        place = judge.place(position)
        futures = _futures(judge, place, position, candidate, reference)
        used = all(future.agrees for future in futures.values())
        ours, token = futures.get("reference"), futures.get("reference_candidate_token")
        forks.append(
            Fork(
                position=position,
                flip_class=str(columns["flip_class"][row]),  # type: ignore[arg-type]
                turn=int(columns["turn"][row]),
                span_kind=str(columns["span_kind"][row]),
                target_id=int(columns["target_id"][row]),
                turn_text=place.turn_text,
                recorded_text=place.recorded_text,
                reference_top=top_tokens["reference"][number],
                candidate_top=top_tokens["candidate"][number],
                futures=tuple(futures.values()),
                consequence=consequence_of(futures["candidate"], ours) if used else None,
                token_consequence=consequence_of(token, ours) if used and token is not None else None,
            )
        )
    return tuple(forks)


def _futures(judge: Judge, place: Place, position: int, candidate: Side, reference: Side | None) -> dict[Role, Future]:
    """By role, in order."""
    raw = [] if reference is None else [reference.own(position, "reference"), reference.given(position)]
    raw.append(candidate.own(position, "candidate"))
    return {item.role: judge.read(item, place) for item in raw if item is not None}


def _raw(role: Role, found: Mapping[str, Any], *, engine_token_id: int | None) -> RawFuture:
    return RawFuture(
        role=role,
        engine_token_id=engine_token_id,
        token_ids=tuple(found["token_ids"]),
        finish=found["finish"],
        batch=found["batch"],
        order=found["order"],
        cached_tokens=found["cached_tokens"],
    )
