"""`branches.json` and `branches.jsonl.gz` in a bundle: counts follow from forks, and forks from ledger and captures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.branch.candidates import top_tokens
from suite.branch.check import check_forks, check_record
from suite.branch.counts import count_branches
from suite.branch.file import read_forks
from suite.branch.grader import Grader
from suite.branch.parts import Branching
from suite.branch.schema import (
    BRANCHES_NAME,
    FORKS_NAME,
    BranchesRecord,
    BranchHeadlines,
    Fork,
    TopToken,
    parse_branches,
)
from suite.bundle.evidence import find_capture
from suite.bundle.read import Bundle
from suite.bundle.schema import EvidencePair
from suite.errors import MissingPrerequisite, SuiteError, VerificationFailed
from suite.manifest.lock import Lock
from suite.score.ledger import Ledger
from suite.workload.session import Session

_NEAR = 1e-9
"""Of probabilities, which another machine's `exp` may round otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleBranches:
    """The branching futures of a bundle, read."""

    record: BranchesRecord
    forks: tuple[Fork, ...]


def pack_branches(
    branching: Branching, ledger: Ledger, *, lock: Lock, reference_lock: Lock
) -> tuple[BranchHeadlines, dict[str, bytes]]:
    """Headline counts, computed from the forks, and the files of a bundle.

    Raises:
        VerificationFailed: the forks are not of this ledger, or their consequences do not follow.
    """
    record, files = branching.packed()
    try:
        check_record(record, lock=lock, reference_lock=reference_lock)
        check_forks(branching.forks, ledger, record)
        return count_branches(ledger, record.policy, branching.forks), files
    except VerificationFailed as error:
        raise VerificationFailed(error.message, where=FORKS_NAME, hint="run it again") from error


def read_branches(bundle: Bundle, *, first: int = 0, last: int | None = None) -> BundleBranches | None:
    """The branching futures of a bundle, of all positions or of a range; None where it has none.

    Raises:
        InvalidInput, VerificationFailed: it has some that cannot be read.
    """
    if BRANCHES_NAME not in bundle.record.files:
        return None
    record = parse_branches(bundle.read(BRANCHES_NAME))
    forks = tuple(read_forks(bundle.read(FORKS_NAME), record, first=first, last=last))
    return BundleBranches(record=record, forks=forks)


def check_branches(
    found: BundleBranches,
    claimed: BranchHeadlines | None,
    ledger: Ledger,
    *,
    lock: Lock,
    reference_lock: Lock,
    evidence: EvidencePair,
    session: Session | None,
    captures: Path | None,
) -> str:
    """Check forks against the ledger, the headline, the session and the captures, as far as these are at hand.

    Args:
        found: From the bundle's files.
        claimed: `branches` of `bundle.json`.
        ledger: The bundle's.
        lock: The candidate's.
        reference_lock: The reference's.
        evidence: Names the captures.
        session: The workload; None where it is not at hand.
        captures: A capture store; None for none.

    Returns:
        One line on what holds.

    Raises:
        VerificationFailed: what does not follow.
    """
    record, forks = found.record, found.forks
    grader = None
    if session is not None and session.digest() == lock.workload.digest:
        grader = Grader(session=session, format=record.tool_format)
    try:
        check_record(record, lock=lock, reference_lock=reference_lock)
        check_forks(forks, ledger, record, grader=grader)
        counts = count_branches(ledger, record.policy, forks)
    except SuiteError as error:
        raise VerificationFailed(error.message, where=FORKS_NAME) from error
    if claimed != counts:
        raise VerificationFailed("`branches` of bundle.json does not follow from the forks", where=FORKS_NAME)
    seen = 0 if captures is None else _check_top_tokens(forks, ledger, evidence, captures)
    told = f"{counts.used} of {counts.followed} forks used; counts and consequences follow from the futures"
    told += "; verdicts not recomputed: the session is not at hand" if grader is None else "; every verdict recomputed"
    return f"{told}; best tokens from {seen} of 2 captures" if seen else told


def _check_top_tokens(forks: Sequence[Fork], ledger: Ledger, evidence: EvidencePair, captures: Path) -> int:
    """Compare the best tokens of every fork with the captures; returns how many of them the store holds."""
    rows = {position: row for row, position in enumerate(ledger.columns["position"].tolist())}
    found = 0
    for side in ("reference", "candidate"):
        try:
            capture = find_capture(captures, getattr(evidence, side))
        except MissingPrerequisite:
            continue
        found += 1
        expected = top_tokens(capture, [rows[fork.position] for fork in forks], lambda _: "")
        for fork, best in zip(forks, expected, strict=True):
            top: tuple[TopToken, ...] = getattr(fork, f"{side}_top")
            same = [token.id for token in top] == [token.id for token in best]
            if not same or any(abs(x.p - y.p) > _NEAR for x, y in zip(top, best, strict=True)):
                where = f"{FORKS_NAME}: position {fork.position}"
                raise VerificationFailed(f"not the best tokens that the {side} captured", where=where)
    return found
