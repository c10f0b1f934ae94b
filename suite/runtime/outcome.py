"""Read what an agent left behind: progress lines while it runs, and its outcome when it ends."""

from __future__ import annotations

import json
from pathlib import Path

from suite.agent.events import DISK_FULL_EXIT
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, SuiteError, VerificationFailed
from suite.files import read_json
from suite.observer import Observer

_LOG_TAIL_LINES = 15
_ERRORS: dict[str, type[SuiteError]] = {
    "context": InvalidInput,
    "disk_full": MissingPrerequisite,
    "altered": VerificationFailed,
}


class EventReader:
    """Passes new lines of an agent's `events.jsonl` on to an observer."""

    def __init__(self, folder: Path, observer: Observer) -> None:
        self._path = folder / "events.jsonl"
        self._observer = observer
        self._offset = self._path.stat().st_size if self._path.is_file() else 0
        self._rest = b""

    def poll(self) -> None:
        """Report everything that was written since the last call."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # torn by a kill or a full disk; the next line is whole again
                continue
            self._report(event)

    def _report(self, event: dict[str, object]) -> None:
        if event["event"] == "phase":
            total = event["total"]
            self._observer.phase(
                str(event["name"]), total=total if isinstance(total, int) else None, unit=str(event["unit"])
            )
        elif event["event"] == "advance":
            self._observer.advance(int(str(event["count"])))
        elif event["event"] == "note":
            self._observer.note(str(event["text"]))


def raise_for_outcome(folder: Path, exit_code: int) -> None:
    """Return if the agent finished; else raise what it reported, or what its sudden end looks like.

    An engine that fails while it is being torn down, after the outcome was written, has finished.

    Raises:
        InvalidInput: the workload does not fit the context.
        MissingPrerequisite: the disk is full.
        VerificationFailed: a stored chunk or head is not what was written.
        RunFailed: anything else, with the end of the log.
    """
    path = folder / "outcome.json"
    if path.is_file():
        outcome = read_json(path)
        if outcome["status"] == "done":
            return
        if outcome["status"] == "failed":
            kind = _ERRORS.get(outcome["kind"], RunFailed)
            hint = outcome["hint"]
            if kind is RunFailed and outcome["kind"] == "engine":
                hint = f"{hint}\n{log_tail(folder / 'engine.log')}"
            raise kind(outcome["message"], where=str(folder), hint=hint or None)
    if exit_code == DISK_FULL_EXIT:
        raise MissingPrerequisite(
            "no space left on the disk, not even to say so",
            where=str(folder),
            hint="free disk space and run again with --resume",
        )
    how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
    raise RunFailed(
        f"the agent {how} without an outcome",
        where=str(folder),
        hint="run again with --resume to go on from the last whole chunk; the end of the log:\n"
        + log_tail(folder / "engine.log"),
    )


def log_tail(path: Path) -> str:
    """The last lines of a log, indented; empty if there is none."""
    if not path.is_file():
        return ""
    lines = path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return "\n".join(f"    {line}" for line in lines)
