"""Processes without a network: the kernel's own word, and the process runtime's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from suite.errors import RunFailed
from suite.observer import SilentObserver
from suite.runtime import network
from suite.runtime.interface import AgentCall, Folder
from suite.runtime.network import cut_off, why_not_cut_off
from suite.runtime.process import ProcessRuntime

LOOK = """
import json, os, socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    loopback = socket.create_connection(server.getsockname(), 5).close() is None
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
    outside = "reached"
except OSError as error:
    outside = type(error).__name__
try:
    with open("/proc/1/ns/net") as other:
        os_setns = __import__("ctypes").CDLL(None).setns(other.fileno(), 0)
except OSError:
    os_setns = -1
print(json.dumps({
    "devices": [name for _, name in socket.if_nameindex()],
    "loopback": loopback, "outside": outside, "back": os_setns, "user": os.geteuid(),
}))
"""


@pytest.fixture
def namespaces():
    why = why_not_cut_off()
    if why is not None:
        pytest.skip(f"this kernel makes no network namespace: {why}")


def test_a_process_that_is_cut_off_has_loopback_alone_and_cannot_come_back(namespaces, tmp_path):
    import os
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        arguments = [sys.executable, "-I", "-c", LOOK, host, str(port)]
        here = json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
        there = json.loads(subprocess.run(cut_off(arguments), capture_output=True, text=True, check=True).stdout)
    # The same port of the same address: a server of this machine, which the other namespace has not.
    assert here["outside"] == "reached"
    assert there["outside"] == "ConnectionRefusedError"
    assert there["devices"] == ["lo"]
    assert there["loopback"] is True
    assert there["back"] == -1
    assert there["user"] == os.geteuid()


def test_the_process_runtime_starts_its_agent_there(namespaces, tmp_path):
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\n{sys.executable} -I -c 'import socket; print(socket.if_nameindex())' > devices\n"
        'printf \'{"status":"done"}\' > outcome.json\n'
    )
    python.chmod(0o755)

    def devices(runtime: ProcessRuntime) -> str:
        out = tmp_path / "out"
        call = AgentCall(command="capture", folders={"out": Folder(host=out, writable=True)}, request=dict)
        runtime.call(call, SilentObserver())
        return (out / "devices").read_text()

    runtime = ProcessRuntime(python, home=tmp_path)
    assert devices(runtime.without_network()) == "[(1, 'lo')]\n"
    assert (
        devices(runtime)
        == subprocess.run(
            [sys.executable, "-I", "-c", "import socket; print(socket.if_nameindex())"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def test_where_the_kernel_refuses_nothing_is_run_and_the_reason_is_told(tmp_path, monkeypatch):
    refusing = tmp_path / "no_network.py"
    source = Path(network.no_network.__file__).read_text(encoding="utf-8")
    # 0x100 is no namespace: the kernel answers as one that makes none does.
    refusing.write_text(source.replace("_CLONE_NEWNET = 0x40000000", "_CLONE_NEWNET = 0x100"), encoding="utf-8")
    monkeypatch.setattr(network.no_network, "__file__", str(refusing))
    assert str(why_not_cut_off()).startswith("no network namespace: ")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ntouch started\n")
    python.chmod(0o755)
    out = tmp_path / "out"
    call = AgentCall(command="capture", folders={"out": Folder(host=out, writable=True)}, request=dict)
    with pytest.raises(RunFailed, match="exit code 125") as caught:
        ProcessRuntime(python, home=tmp_path).without_network().call(call, SilentObserver())
    assert "no network namespace" in str(caught.value)
    assert not (out / "started").exists()
