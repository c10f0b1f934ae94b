"""Run a command in a network namespace of its own, in which only the loopback device is: `no_network.py COMMAND…`.

A script of the standard library alone, so that any interpreter starts it (`-I`). It ends with exit code 125 and a
reason where the kernel does not allow it; the command is then not run.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

REFUSED_EXIT = 125

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_NAME_AND_FLAGS = "16sH14x"


def leave_network() -> None:
    """Move this process into a user and a network namespace of its own, and bring its loopback device up.

    The user namespace comes first, also for root: who has no right in the machine's own namespaces cannot go back.

    Raises:
        OSError: the kernel refuses.
    """
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # The same ids as outside. A group may be mapped only by who has given up changing its other groups.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack(_NAME_AND_FLAGS, b"lo", 0)
        flags = struct.unpack(_NAME_AND_FLAGS, fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack(_NAME_AND_FLAGS, b"lo", flags | _IFF_UP))


def main(command: list[str]) -> None:
    """Leave the network and become `command`; without a command, say which network devices are left."""
    try:
        leave_network()
    except OSError as error:
        sys.stderr.write(f"no network namespace: {error.strerror}\n")
        raise SystemExit(REFUSED_EXIT) from None
    if command:
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    sys.stdout.write("\n".join(name for _, name in socket.if_nameindex()))


if __name__ == "__main__":
    main(sys.argv[1:])
