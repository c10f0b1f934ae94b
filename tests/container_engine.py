"""The real engine that `.ci/containers` starts, a registry on loopback, and a small Debian image that has Python."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.errors import MissingPrerequisite
from suite.image.engine import Engine, connect, connected
from suite.image.present import PresentImage
from suite.image.pull import ensure_pulled
from suite.manifest.schema import Image
from suite.observer import SilentObserver


@dataclass(frozen=True)
class World:
    """Where things are."""

    registry: str
    """`127.0.0.1:PORT`"""
    base: str
    """`127.0.0.1:PORT/NAME@sha256:…` of the Debian image."""

    @property
    def base_image(self) -> Image:
        repository, _, digest = self.base.partition("@")
        return Image(repository=repository, digest=digest)


@pytest.fixture(scope="session")
def world() -> World:
    """A test that asks for it fails where there is no engine; `-m "not container"` leaves such tests out."""
    missing = [name for name in ("DOCKER_HOST", "SUITE_TEST_REGISTRY", "SUITE_TEST_BASE") if name not in os.environ]
    assert not missing, (
        f"{', '.join(missing)} not set: run `.ci/containers start FOLDER`, and source FOLDER/environment"
    )
    return World(registry=os.environ["SUITE_TEST_REGISTRY"], base=os.environ["SUITE_TEST_BASE"])


@pytest.fixture
def engine(world: World):
    with connected() as connection:
        yield connection


@pytest.fixture
def base(world: World, engine: Engine, tmp_path: Path) -> PresentImage:
    """The Debian image, present."""
    return ensure_pulled(world.base_image, engine=engine, home=tmp_path / "pulled", observer=SilentObserver())


def containers_of(engine: Engine, home: Path) -> list[str]:
    """Containers that a state folder has in the engine, running or not."""
    from suite.runtime.leases import LABEL_HOME, _name

    return [c["Id"] for c in engine.api.containers(all=True, filters={"label": f"{LABEL_HOME}={_name(home)}"})]


class Daemon:
    """An engine of a test's own, which may be killed and started again."""

    def __init__(self, folder: Path, data: Path, address: str) -> None:
        self._folder = folder
        # Its helper's sockets lie there, and a socket's path has at most 104 characters.
        self._exec = Path(f"/run/suite-test-{os.getpid()}-exec")
        self._command = ["dockerd", "--data-root", str(data), "--exec-root", str(self._exec), "--host", address]
        self._command += ["--pidfile", str(folder / "pid"), "--storage-driver", "overlay2"]
        self._command += ["--bridge=none", "--iptables=false", "--ip6tables=false"]

    def start(self) -> None:
        # Of a killed engine's helper, which may still lie there as a zombie: it would be taken for a living one.
        (self._exec / "containerd" / "containerd.pid").unlink(missing_ok=True)
        log = self._folder / "dockerd.log"
        with log.open("ab") as sink:
            self._process = subprocess.Popen(self._command, stdout=sink, stderr=sink)
        for _ in range(600):
            try:
                connect().close()
            except MissingPrerequisite:
                time.sleep(0.1)
            else:
                return
        self.kill()
        raise AssertionError(log.read_text()[-2000:])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        for line in Path("/proc/mounts").read_text().splitlines()[::-1]:
            if line.split()[1].startswith(f"{self._exec}/"):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
        shutil.rmtree(self._exec, ignore_errors=True)


@contextmanager
def another_engine(folder: Path, monkeypatch: pytest.MonkeyPatch, data: Path | None = None) -> Iterator[Daemon]:
    """A second engine, which `connect` finds while the block runs. Root only."""
    # A socket's path is short, and that of a test's folder is not.
    socket = Path(f"/run/suite-test-{os.getpid()}.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    daemon = Daemon(folder, data or folder / "data", f"unix://{socket}")
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
        socket.unlink(missing_ok=True)
        for line in Path("/proc/mounts").read_text().splitlines()[::-1]:
            if line.split()[1].startswith(f"{folder}/") and "/small" not in line.split()[1].removeprefix(str(folder)):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
