"""Whether this machine can cut a process off the network, and the command that does it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from suite.runtime import no_network

_TRY_SECONDS = 30


def cut_off(command: Sequence[str]) -> list[str]:
    """`command` as it is started in a namespace without a network; it fails where `why_not_cut_off` has a reason."""
    return [sys.executable, "-I", no_network.__file__, *command]


def why_not_cut_off() -> str | None:
    """Why processes of this machine cannot be cut off the network; None where they can. It is tried, not guessed."""
    try:
        done = subprocess.run(cut_off([]), capture_output=True, text=True, timeout=_TRY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no network namespace: {error}"
    if done.returncode != 0:
        return done.stderr.strip()[-200:] or f"no network namespace: exit code {done.returncode}"
    devices = done.stdout.split()
    return None if devices == ["lo"] else f"a new network namespace holds {', '.join(devices) or 'no loopback device'}"
