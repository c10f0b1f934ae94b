"""`python -m suite.agent COMMAND FILE`: the host starts one of these inside the stack."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from pathlib import Path

COMMANDS = {
    "capture": "suite.agent.capture",
    "replay": "suite.agent.replay",
    "score": "suite.agent.scoring.job",
    "inventory": "suite.agent.stocktake",
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
    """Dispatch; imports stay inside, since each command needs other libraries."""
    command, file = arguments
    if os.environ.get("SUITE_WATCH_STDIN") == "1":
        _end_with_host()
    if command not in COMMANDS:
        raise SystemExit(f"unknown command {command!r}; one of {', '.join(COMMANDS)}")
    module = importlib.import_module(COMMANDS[command])
    return int(module.main(Path(file)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
