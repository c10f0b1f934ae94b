"""`replays.json` in a bundle: headlines follow from answers, and verdicts from the session where that is at hand."""

from __future__ import annotations

from pathlib import Path

from suite.bundle.read import Bundle
from suite.errors import SuiteError, VerificationFailed
from suite.manifest.lock import Lock
from suite.replay.counts import headlines
from suite.replay.judge import rejudged, replay_turns, tool_call_turns
from suite.replay.schema import REPLAYS_NAME, Headline, ReplaysRecord, parse_replays
from suite.workload.session import Session, load_session


def read_replays(bundle: Bundle) -> ReplaysRecord | None:
    """The turn replays of a bundle; None where it has none.

    Raises:
        InvalidInput, VerificationFailed: it has some that cannot be read.
    """
    if REPLAYS_NAME not in bundle.record.files:
        return None
    return parse_replays(bundle.read(REPLAYS_NAME))


def check_replays(
    record: ReplaysRecord,
    claimed: tuple[Headline, ...] | None,
    *,
    lock: Lock,
    reference: Lock,
    session: Session | None,
) -> str:
    """Check a record against the bundle's headlines and locks, and each verdict against the session where it is given.

    Args:
        record: From `replays.json`.
        claimed: The headlines of `bundle.json`.
        lock: The candidate's.
        reference: The reference's.
        session: The workload; None where it is not at hand.

    Returns:
        One line on what holds.

    Raises:
        VerificationFailed: what does not follow.
    """
    if record.workload.digest != lock.workload.digest:
        raise VerificationFailed("another session than the lock's", where=REPLAYS_NAME)
    digests = {"candidate": lock.digest, "reference": reference.digest}
    for run in record.runs:
        if run.settings == "endpoint" or run.lock_digest != digests[run.side]:
            raise VerificationFailed(f"the {run.side}'s answers are not of the stack in its lock", where=REPLAYS_NAME)
    found = headlines(record.runs)
    if record.headlines != found or claimed != found:
        raise VerificationFailed("its headlines do not follow from its answers", where=REPLAYS_NAME)
    told = "; ".join(
        f"{line.candidate.survived} of {line.candidate.n} ({line.settings}, {line.mode})" for line in found
    )
    if session is None:
        return f"calls survive: {told}; from the verdicts, which were not recomputed: the session is not at hand"
    if session.digest() != lock.workload.digest:
        raise VerificationFailed("the session given is not that of the lock", where=session.name)
    known = set(tool_call_turns(session))
    turns = [turn.model_copy(update={"prompt_tokens": None}) for turn in record.turns]
    if any(turn.message not in known for turn in turns) or turns != list(
        replay_turns(session, [turn.message for turn in turns])
    ):
        raise VerificationFailed("its turns are not those of the session", where=REPLAYS_NAME)
    for run, again in zip(record.runs, rejudged(record.runs, session), strict=True):
        for claimed_answer, answer in zip(run.answers, again.answers, strict=True):
            if claimed_answer != answer:
                raise VerificationFailed(
                    f"turn {answer.message}, sample {answer.sample} of the {run.side}: the bundle claims "
                    f"{claimed_answer.verdict}, recomputed {answer.verdict}",
                    where=REPLAYS_NAME,
                )
    return f"calls survive: {told}; every verdict recomputed from its text"


def find_session(root: Path, digest: str) -> Session | None:
    """The session of that digest among `workloads/*/*.json` of a folder; None if it is not there."""
    for path in sorted(root.glob("workloads/*/*.json")):
        try:
            session = load_session(path)
        except SuiteError:
            continue
        if session.digest() == digest:
            return session
    return None
