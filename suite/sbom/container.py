"""Inventories of images and running containers, read inside them; where they have no Python, from their exported files.

Nothing is written into a container: the collector arrives on standard input and stays in memory.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import suite.agent
from suite.agent.inventory import collect_inventory, inventory_bytes
from suite.errors import InvalidInput, RunFailed
from suite.image.engine import Engine, engine_errors
from suite.image.present import inspect
from suite.observer import Observer
from suite.runtime.leases import lease, remove, remove_abandoned

_AGENT = Path(suite.agent.__file__).parent
_DOING = "the inventory could not be taken"
_NO_SUCH_PROGRAM = frozenset({126, 127})
_LOADER = """
import os, sys
size = int.from_bytes(sys.stdin.buffer.read(8), "big")
place = os.memfd_create("suite")
with os.fdopen(os.dup(place), "wb") as sink:
    sink.write(sys.stdin.buffer.read(size))
sys.path.insert(0, f"/proc/self/fd/{place}")
from suite.agent.inventory import collect_inventory, inventory_bytes
sys.stdout.buffer.write(inventory_bytes(collect_inventory()))
"""
_COMMAND = ["python3", "-I", "-B", "-c", _LOADER]


class _NoPython(Exception):
    """There is no `python3` that could run the collector."""


def inventory_of_image(name: str, *, engine: Engine, home: Path, observer: Observer) -> bytes:
    """The inventory of an image that the engine holds, from a container of it that may read all and write nothing.

    Args:
        name: A name with digest, or an image id.
        engine: Where it is.
        home: The state folder, which owns the container while it lives.
        observer: Told the phase, and when the image had to be unpacked.

    Raises:
        InvalidInput: the engine does not hold it.
        RunFailed: the collector failed, or the engine went away.
    """
    if inspect(engine, name) is None:
        raise InvalidInput("the engine holds no such image", where=name, hint="pull it by digest first")
    remove_abandoned(engine, home, observer)
    observer.phase("inventory")
    with lease(home) as labels, engine_errors(_DOING, where=name):
        container = engine.api.create_container(
            name,
            entrypoint=_COMMAND[:1],
            command=_COMMAND[1:],
            user="0:0",
            working_dir="/",
            labels=labels,
            stdin_open=True,
            network_disabled=True,
            use_config_proxy=False,
            host_config=engine.api.create_host_config(
                read_only=True,
                network_mode="none",
                cap_drop=["ALL"],
                # Everything is read, as it is from a folder by root; nothing can be changed.
                cap_add=["DAC_READ_SEARCH"],
                security_opt=["no-new-privileges"],
                pids_limit=64,
            ),
        )["Id"]
        try:
            return _from_new(engine, container)
        except _NoPython:
            observer.note("the image has no python3: it is unpacked and read here")
            return _from_export(engine, container)
        finally:
            with contextlib.suppress(Exception):
                engine.require_alive()
                remove(engine, container)


def inventory_of_container(name: str, *, engine: Engine, observer: Observer) -> bytes:
    """The inventory of a running container, read inside it as its root.

    Args:
        name: Its name or id.
        engine: Where it runs.
        observer: Told the phase, and when its files had to be exported.

    Raises:
        MissingPrerequisite: there is no such container.
        RunFailed: it is not running, the collector failed, or the engine went away.
    """
    observer.phase("inventory")
    with engine_errors(_DOING, where=name):
        state = engine.api.inspect_container(name)["State"]
        if not state.get("Running"):
            raise RunFailed("the container is not running", where=name, hint="start it, or read its image with --image")
        try:
            call = engine.api.exec_create(name, _COMMAND, user="0", workdir="/", stdin=True)
            socket = engine.api.exec_start(call["Id"], socket=True)
            out, err = _converse(socket)
            code = int(engine.api.exec_inspect(call["Id"])["ExitCode"])
            return _checked(out, err, code, name)
        except _NoPython:
            observer.note("the container has no python3: its files are exported and read here")
            return _from_export(engine, name)


def _from_new(engine: Engine, container: str) -> bytes:
    import docker.errors

    streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    socket = engine.api.attach_socket(container, params=streams)
    try:
        engine.api.start(container)
    except docker.errors.APIError as error:
        _close(socket)
        if "executable file not found" in str(error.explanation):
            raise _NoPython from error
        raise
    out, err = _converse(socket)
    code = int(engine.api.wait(container)["StatusCode"])
    return _checked(out, err, code, container[:12])


def _converse(socket: Any) -> tuple[bytes, bytes]:
    """Send the collector, and take what it says on both streams."""
    from docker.utils.socket import frames_iter

    data = _archive()
    streams: dict[int, list[bytes]] = {1: [], 2: []}
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            getattr(socket, "_sock", socket).sendall(len(data).to_bytes(8, "big") + data)
        for stream, block in frames_iter(socket, tty=False):
            streams.setdefault(stream, []).append(block)
    finally:
        _close(socket)
    return b"".join(streams[1]), b"".join(streams[2])


def _close(socket: Any) -> None:
    with contextlib.suppress(OSError, ValueError):
        socket._response.close()
    with contextlib.suppress(OSError):
        socket.close()


def _checked(out: bytes, err: bytes, code: int, where: str) -> bytes:
    if code == 0:
        return out
    if code in _NO_SUCH_PROGRAM:
        raise _NoPython
    told = (err or out).decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
    raise RunFailed(f"the collector failed: {told[-1]}", where=where)


def _archive() -> bytes:
    """The inventory package as a zip file that Python imports from."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("suite/__init__.py", "")
        archive.writestr("suite/agent/__init__.py", (_AGENT / "__init__.py").read_bytes())
        for path in sorted((_AGENT / "inventory").glob("*.py")):
            archive.writestr(f"suite/agent/inventory/{path.name}", path.read_bytes())
    return sink.getvalue()


def _from_export(engine: Engine, container: str) -> bytes:
    """Unpack the container's files into a temporary folder, and read that."""
    with tempfile.TemporaryDirectory(prefix="suite-export-") as folder:
        stream = io.BufferedReader(_Chunks(engine.api.export(container)))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.isfile() or member.isdir() or member.issym() or member.islnk():
                    member.mode |= 0o700 if member.isdir() else 0o400
                    archive.extract(member, folder, filter=_safe)
        return inventory_bytes(collect_inventory(Path(folder)))


def _safe(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """No member leaves the folder; symbolic links are kept as they are, since the collector follows them inside it."""
    if member.issym():
        plain = member.replace(linkname="x", deep=False)
        checked = tarfile.tar_filter(plain, folder)
        return checked.replace(linkname=member.linkname, deep=False)
    return tarfile.tar_filter(member, folder)


class _Chunks(io.RawIOBase):
    """An iterator of blocks as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = block
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
