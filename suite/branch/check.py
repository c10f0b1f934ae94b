"""Whether forks follow from the ledger, their consequences from their futures, and their grades from their texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from suite.branch.consequence import consequence_of
from suite.branch.grader import Grader, read_states
from suite.branch.schema import BranchesRecord, BranchRun, Fork, Future
from suite.branch.select import fork_policy
from suite.errors import VerificationFailed
from suite.grade.formats import GRAMMARS
from suite.manifest.lock import Lock
from suite.score.ledger import Ledger


def check_record(record: BranchesRecord, *, lock: Lock, reference_lock: Lock) -> None:
    """Check the runs of a record against the locks.

    Raises:
        VerificationFailed: what does not follow.
    """
    if record.policy != fork_policy(lock.branches):
        raise VerificationFailed("its policy is not that of the lock")
    if record.tool_format is not None and record.tool_format not in GRAMMARS:
        raise VerificationFailed(f"no tool-call format is named {record.tool_format!r}")
    sides: list[tuple[BranchRun | None, Lock]] = [(record.candidate, lock), (record.reference, reference_lock)]
    for run, of in sides:
        if run is None:
            continue
        if (run.name, run.lock_digest) != (of.name, of.digest):
            raise VerificationFailed(f"{run.name}: not the lock of this bundle")
        for key, wanted in sorted(run.requested.items()):
            if wanted is not None and run.effective.get(key) != wanted:
                raise VerificationFailed(
                    f"{run.name}: {key}: requested {wanted!r}, effective {run.effective.get(key)!r}"
                )
        if run.effective.get("enable_prefix_caching") is not True:
            raise VerificationFailed(f"{run.name}: branched without prefix caching")


def check_forks(forks: Sequence[Fork], ledger: Ledger, record: BranchesRecord, *, grader: Grader | None = None) -> None:
    """Check forks against the ledger's rows, and their consequences against their futures.

    Args:
        forks: In order of position.
        ledger: Of which they are flips.
        record: Says how they were made.
        grader: Of the session, where that is at hand: every verdict is computed again.

    Raises:
        VerificationFailed: the first position and what does not follow.
    """
    columns = ledger.columns
    rows = {position: row for row, position in enumerate(columns["position"].tolist())}
    for a, b in pairwise(forks):
        if a.position >= b.position:
            raise VerificationFailed(f"position {b.position}: not in order")
    for fork in forks:
        row = rows.get(fork.position)
        if row is None or not columns["flip"][row]:
            raise VerificationFailed(f"position {fork.position}: no flip of the ledger")
        reference, candidate = int(columns["ref_top1"][row]), int(columns["cand_top1"][row])
        tokens = {"reference": reference, "reference_candidate_token": candidate, "candidate": candidate}
        facts = {
            "flip_class": str(columns["flip_class"][row]),
            "turn": int(columns["turn"][row]),
            "span_kind": str(columns["span_kind"][row]),
            "target_id": int(columns["target_id"][row]),
        }
        for key, value in facts.items():
            if getattr(fork, key) != value:
                raise VerificationFailed(f"position {fork.position}: {key}: the ledger has {value!r}")
        for future in fork.futures:
            if future.first_token_id != tokens[future.role]:
                raise VerificationFailed(f"position {fork.position}: {future.role} does not continue the winner")
            if future.role != "candidate" and record.reference is None:
                raise VerificationFailed(f"position {fork.position}: a future of a reference that did not run")
            if len(future.token_ids) > record.policy.max_new_tokens:
                raise VerificationFailed(f"position {fork.position}: {future.role} is longer than the cap")
            _check_grade(fork, future, record.tool_format, grader)
        if fork.future("reference") is None and record.reference is not None:
            raise VerificationFailed(f"position {fork.position}: the reference's future is missing")
        for top, winner in ((fork.reference_top, reference), (fork.candidate_top, candidate)):
            if not top or top[0].id != winner or any(x.p < y.p for x, y in pairwise(top)):
                raise VerificationFailed(f"position {fork.position}: its best tokens do not begin with the winner")
        if derived(fork) != (fork.consequence, fork.token_consequence):
            raise VerificationFailed(f"position {fork.position}: its consequence does not follow from its futures")


def derived(fork: Fork) -> tuple[object, object]:
    """Consequence and token consequence of a fork, from its futures; None for a fork that is not used."""
    reference, token = fork.future("reference"), fork.future("reference_candidate_token")
    candidate = fork.future("candidate")
    assert candidate is not None
    if not fork.used:
        return None, None
    of_token = consequence_of(token, reference) if token is not None and reference is not None else None
    return consequence_of(candidate, reference), of_token


def _check_grade(fork: Fork, future: Future, tool_format: str | None, grader: Grader | None) -> None:
    """States and number of calls follow from the text; with the session at hand, verdict and calls do too."""
    for thinking in (False, True):
        if grader is not None:
            found = grader.grade(
                fork.turn_text, future.token_texts, future.finish, turn=fork.turn, reasoning_open=thinking
            )
            if (found.states, found.verdict, found.calls) == (future.states, future.verdict, future.calls):
                return
            continue
        states, parsed = read_states(tool_format, fork.turn_text, future.token_texts, reasoning_open=thinking)
        calls = [call for call in parsed.calls if call.end is None or call.end > len(fork.turn_text)]
        if states == future.states and [call.name for call in calls] == [call.name for call in future.calls]:
            return
    raise VerificationFailed(f"position {fork.position}: {future.role}: its grade does not follow from its text")
