"""A bundle's ledger against that of a fresh run of its lock, row by row, and the verdict that follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.errors import VerificationFailed
from suite.score.check import equal_scores
from suite.score.floor import Repeats
from suite.score.interface import Columns
from suite.score.ledger import Ledger

Verdict = Literal["identical", "within floor", "differs"]

# A drawn capture counts its ranges otherwise; the two hashes are compared for themselves.
_NOT_SCORES = frozenset({"range_index", "ref_row_sha256", "cand_row_sha256"})


@dataclass(frozen=True, kw_only=True, slots=True)
class SideRows:
    """One side of the bundle against the same side of the fresh run."""

    identical_rows: int
    """Rows with the same SHA-256: every logit is the same, bit for bit."""
    flips: int
    """Positions at which the fresh run's best token is another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """What repeats of one stack on one machine differ by, at the compared positions; the largest of its starts."""

    starts: int
    """Fresh starts; with one alone nothing was measured."""
    flips: int
    differing_rows: int

    @property
    def is_measured(self) -> bool:
        """Whether there was a second start."""
        return self.starts > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """How far a bundle was reproduced, in counts of the compared positions."""

    n: int
    identical: int
    """Positions at which both rows and everything scored from them are the same."""
    candidate: SideRows
    reference: SideRows
    contradicted: int
    """Positions whose two rows are the same, but not what the bundle says of them: its ledger was altered."""
    first_contradiction: str
    """Position and column; empty where there is none."""
    flips_claimed: int
    """Flips of candidate against reference, as the bundle has them at these positions."""
    flips_found: int
    """The same, in the fresh run."""
    mean_kl_claimed: float
    """KL(reference || candidate) at these positions, nats."""
    mean_kl_found: float
    rounding_kl: float
    """Mean KL that storing rows in their dtype makes by itself, nats."""
    declared_floor: Floor
    """The bundle's own."""
    own_floor: Floor
    """Of the fresh run, here."""
    verdict: Verdict
    why: str
    """What the verdict rests on, in one sentence."""

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def compare(claimed: Ledger, found: Ledger, *, declared: Repeats, own: Repeats) -> Comparison:
    """Compare a bundle's ledger with that of a fresh run, at every position of the fresh run.

    *Identical*: at all of them both rows and everything scored from them are the same. *Within floor*: no more rows and
    best tokens differ, on either side, than both floors show, the bundle's and that measured here (a bundle could
    declare any), and the mean KL lies no further off than rounding explains: sqrt(KL) is a distance near 0, so that by
    the triangle inequality two stacks a rounding apart differ by at most its sqrt(KL). *Differs*: anything else.

    Args:
        claimed: The bundle's.
        found: The fresh run's; its positions are among the bundle's.
        declared: The bundle's `repeats.json`.
        own: That of the fresh run.

    Raises:
        VerificationFailed: the two are not of the same tokens and positions.
    """
    theirs, ours = _at(claimed, found), found.columns
    n = found.num_rows
    same = {side: (theirs[f"{side}_row_sha256"] == ours[f"{side}_row_sha256"]).all(axis=1) for side in ("ref", "cand")}
    same_rows = same["ref"] & same["cand"]
    contradicted, first = _contradictions(theirs, ours, same_rows)
    sides = {
        side: SideRows(
            identical_rows=int(same[side].sum()),
            flips=int((theirs[f"{side}_top1"] != ours[f"{side}_top1"]).sum()),
        )
        for side in ("ref", "cand")
    }
    counts: dict[str, Any] = {
        "n": n,
        "identical": int((same_rows & ~contradicted).sum()),
        "candidate": sides["cand"],
        "reference": sides["ref"],
        "contradicted": int(contradicted.sum()),
        "first_contradiction": first,
        "flips_claimed": int(theirs["flip"].sum()),
        "flips_found": int(ours["flip"].sum()),
        "mean_kl_claimed": float(theirs["kl_ref_cand"].mean()),
        "mean_kl_found": float(ours["kl_ref_cand"].mean()),
        "rounding_kl": float(ours["rounding_kl"].mean()),
        "declared_floor": floor_at(declared, ours["position"]),
        "own_floor": floor_at(own, ours["position"]),
    }
    verdict, why = _verdict(**counts)
    return Comparison(**counts, verdict=verdict, why=why)


def floor_at(repeats: Repeats, positions: NDArray[np.int64]) -> Floor:
    """The floor at some of its positions: flips are known one by one, differing rows in proportion, rounded up."""
    known = set(positions.tolist())
    others = repeats.starts[1:]
    return Floor(
        starts=len(repeats.starts),
        flips=max((sum(flip.position in known for flip in start.flips) for start in others), default=0),
        differing_rows=max(
            (ceil((start.n - start.identical_rows) * len(known) / max(start.n, 1)) for start in others), default=0
        ),
    )


def _at(claimed: Ledger, found: Ledger) -> Columns:
    """The bundle's columns at the positions of the fresh run."""
    for key in ("tokens_sha256", "num_tokens", "path", "vocab_size", "ref_dtype", "cand_dtype"):
        ours, theirs = getattr(found.facts, key), getattr(claimed.facts, key)
        if ours != theirs:
            raise VerificationFailed(
                f"{key}: the bundle's ledger says {theirs}, the run {ours}", where="ledger.parquet"
            )
    known, wanted = claimed.columns["position"], found.columns["position"]
    index = np.searchsorted(known, wanted)
    inside = index < len(known)
    if not inside.all() or (known[index] != wanted).any():
        raise VerificationFailed("the bundle's ledger lacks positions that its lock captures", where="ledger.parquet")
    return {name: values[index] for name, values in claimed.columns.items()}


def _contradictions(theirs: Columns, ours: Columns, same_rows: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], str]:
    """At which positions equal rows have other scores, and the first of them with its column."""
    wrong = np.zeros(len(same_rows), dtype=np.bool_)
    first: tuple[int, str] | None = None
    scores = {name: values for name, values in ours.items() if name not in _NOT_SCORES}
    for name, equal in equal_scores(theirs, scores):
        here = np.flatnonzero(same_rows & ~equal)
        wrong[here] = True
        if here.size and (first is None or here[0] < first[0]):
            first = (int(here[0]), name)
    if first is None:
        return wrong, ""
    row, name = first
    told, found = (_shown(columns[name][row]) for columns in (theirs, ours))
    return wrong, f"position {int(ours['position'][row])}: {name} is {told}, the run gives {found}"


def _shown(value: object) -> str:
    """A stranger's cell for a terminal."""
    return ascii(str(value)[:80])[1:-1]


def _verdict(
    *,
    n: int,
    identical: int,
    candidate: SideRows,
    reference: SideRows,
    contradicted: int,
    first_contradiction: str,
    mean_kl_claimed: float,
    mean_kl_found: float,
    rounding_kl: float,
    declared_floor: Floor,
    own_floor: Floor,
    **_: Any,
) -> tuple[Verdict, str]:
    if identical == n:
        return (
            "identical",
            f"all {n:,} rows of both sides are the same bit for bit, and so is everything scored from them",
        )
    if contradicted:
        return "differs", f"the rows are the same, the bundle's numbers are not: {first_contradiction}"
    differing = {
        "candidate": (n - candidate.identical_rows, candidate.flips),
        "reference": (n - reference.identical_rows, reference.flips),
    }
    for name, floor in (("the bundle's", declared_floor), ("the one measured here", own_floor)):
        if not floor.is_measured:
            return (
                "differs",
                f"{n - identical:,} positions differ, and of the two repeat floors {name} has one start alone",
            )
        for side, (rows, flips) in differing.items():
            if rows > floor.differing_rows or flips > floor.flips:
                return "differs", (
                    f"{rows:,} rows and {flips:,} best tokens of the {side} differ; repeats of one stack differ by "
                    f"{floor.differing_rows:,} and {floor.flips:,} ({name})"
                )
    apart = abs(sqrt(max(mean_kl_claimed, 0)) - sqrt(max(mean_kl_found, 0)))
    if not apart <= sqrt(max(rounding_kl, 0)):
        return "differs", (
            f"few rows differ, but the mean KL is {mean_kl_found:.3e}, not {mean_kl_claimed:.3e}: more than rounding "
            f"({rounding_kl:.1e}) explains"
        )
    return "within floor", "no more rows and best tokens differ than between starts of one stack, there and here"
