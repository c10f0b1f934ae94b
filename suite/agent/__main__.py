"""`python -m suite.agent COMMAND FILE`: the host starts one of these inside the stack."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from suite.agent.events import AgentFailure, Events, failure_of, write_outcome
from suite.agent.lifetime import leave, uncollected

COMMANDS = {
    "capture": "suite.agent.capture",
    "branch": "suite.agent.branch",
    "answer": "suite.agent.answer",
    "replay": "suite.agent.replay",
    "score": "suite.agent.scoring.job",
    "inventory": "suite.agent.stocktake",
    "serve-help": "suite.agent.serve_help",
    "capabilities": "suite.agent.capabilities",
}


def _end_with_host() -> None:
    """The host holds the other end of standard input: when it dies, however it dies, so does the stack."""

    def watch() -> None:
        # Unbuffered: a buffered read would hold a lock that the interpreter needs when it ends.
        while os.read(0, 1):
            pass
        if os.getpgrp() == os.getpid():
            # The host made us lead our own group. Ranks that are asked politely wait in a collective for one that has
            # gone already, and burn a core each for ever.
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="suite-watch", daemon=True).start()


def main(arguments: list[str]) -> int:
    """Run one command's `run(request, events)` and leave `outcome.json`; returns the exit code of `write_outcome`.

    A command's module is imported only here, since each needs other libraries.
    """
    command, file = arguments
    if os.environ.get("SUITE_WATCH_STDIN") == "1":
        _end_with_host()
    if command not in COMMANDS:
        raise SystemExit(f"unknown command {command!r}; one of {', '.join(COMMANDS)}")
    request = json.loads(Path(file).read_text())
    out = Path(request["out"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "outcome.json").unlink(missing_ok=True)
    events = Events(out)
    started = time.perf_counter()
    try:
        with uncollected():
            module = importlib.import_module(COMMANDS[command])
        module.run(request, events)
    except Exception as error:  # noqa: BLE001 - told by the outcome; the log has the traceback
        if not isinstance(error, AgentFailure):
            traceback.print_exc()
        return write_outcome(out, failure_of(error))
    return write_outcome(out, None, seconds=str(round(time.perf_counter() - started, 3)))


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
