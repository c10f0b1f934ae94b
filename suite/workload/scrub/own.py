"""Names of the machine that scrubs and of its user: nobody else's business, whatever they look like."""

from __future__ import annotations

import contextlib
import getpass
import socket

_COMMON = frozenset("root user admin ubuntu debian localhost runner docker nobody vscode jovyan app node".split())  # noqa: SIM905


def own_words() -> tuple[str, ...]:
    """Host name and user name, unless they are what many machines have."""
    words = [socket.gethostname().partition(".")[0]]
    # A container's user id need not have a name.
    with contextlib.suppress(OSError, KeyError):
        words.append(getpass.getuser())
    return tuple(word for word in words if len(word) >= 3 and word.lower() not in _COMMON)
