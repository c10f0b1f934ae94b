"""The container engine of this machine, reached through its socket: Docker, or Podman behind Docker's API."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from suite.errors import MissingPrerequisite, RunFailed, SuiteError

TIMEOUT_SECONDS = 600
"""Of one answer: removing the layers of a large image takes minutes on a slow disk."""
DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_NO_SPACE = "no space left on device"


class EngineDiskFull(MissingPrerequisite):
    """The disk on which the engine keeps images and containers has no room."""


class EngineGone(RunFailed):
    """The engine answered before, and does not now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A connection that answered."""

    client: Any
    """`docker.DockerClient`. Not shared between threads: each connects for itself."""
    address: str
    information: Mapping[str, Any]
    """What the engine says of itself (`docker info`)."""
    is_podman: bool

    @property
    def is_rootless(self) -> bool:
        """Whether the engine's root is this user: user 0 in a container then has this user's rights, no more."""
        return any("rootless" in str(option) for option in self.information.get("SecurityOptions") or ())

    @property
    def api(self) -> Any:
        """The low-level client."""
        return self.client.api

    def require_alive(self) -> None:
        """See that it still answers.

        Raises:
            ConnectionError: it does not.
        """
        try:
            _knock(self.address)
        except OSError as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        """Give the connection back."""
        self.client.close()


@contextmanager
def connected(environment: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """A connection for the length of the block, to `$DOCKER_HOST` or Docker's usual socket.

    Raises:
        MissingPrerequisite: see `connect`.
    """
    engine = connect(environment)
    try:
        yield engine
    finally:
        engine.close()


def connect(environment: Mapping[str, str] | None = None) -> Engine:
    """Connect to `$DOCKER_HOST` or Docker's usual socket, and see that the engine answers.

    Args:
        environment: Variables to look in; the process's own by default.

    Raises:
        MissingPrerequisite: no engine answers there, it may not be used, or it is another machine's.
    """
    import docker
    import docker.errors
    import requests

    variables = os.environ if environment is None else environment
    address = variables.get("DOCKER_HOST") or DEFAULT_ADDRESS
    if not address.startswith(("unix://", "npipe://")):
        # The stack reads its model from this machine's disk and writes its captures there.
        raise MissingPrerequisite(
            "the container engine is on another machine",
            where=f"DOCKER_HOST={address}",
            hint="run suite on that machine, or unset DOCKER_HOST",
        )
    try:
        _knock(address)
        client = docker.DockerClient(base_url=address, version="auto", timeout=TIMEOUT_SECONDS)
        version, information = client.version(), client.info()
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise _unreachable(error, address) from error
    components = " ".join(str(item.get("Name", "")) for item in version.get("Components") or ())
    return Engine(client=client, address=address, information=information, is_podman="podman" in components.lower())


def _knock(address: str) -> None:
    """Connect once and hang up: the SDK leaves a socket open for every attempt that fails.

    Raises:
        OSError: nobody is there, or this user may not come in.
    """
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(10)
            caller.connect(address.removeprefix("unix://"))


def _unreachable(error: Exception, address: str) -> MissingPrerequisite:
    text = f"{type(error).__name__} {error}"
    if "Permission denied" in text or "PermissionError" in text:
        return MissingPrerequisite(
            "this user may not use the container engine",
            where=address,
            hint="add the user to the group `docker`, or use a rootless engine (DOCKER_HOST=unix://…)",
        )
    return MissingPrerequisite(
        "no container engine answers",
        where=address,
        hint="start Docker (`systemctl start docker`), or name a Podman socket: DOCKER_HOST=unix://…/podman.sock; "
        "without one, use a manifest with `runtime: {kind: process}`",
    )


@contextmanager
def engine_errors(doing: str, *, where: str) -> Iterator[None]:
    """Turn what the engine or the connection raises into this project's errors.

    Args:
        doing: What failed, as the beginning of a sentence: "the image could not be pulled".
        where: What it concerns.

    Raises:
        MissingPrerequisite: the engine's disk is full, or it has no such image or container.
        RunFailed: it went away in the middle, or refused for another reason.
    """
    import docker.errors
    import requests

    try:
        yield
    except SuiteError:
        raise
    except docker.errors.APIError as error:
        raise refusal(str(error.explanation or error), doing, where=where, absent=error.status_code == 404) from error
    except (docker.errors.DockerException, requests.RequestException, ConnectionError, EOFError) as error:
        raise went_away(doing, where=where) from error


def refusal(text: str, doing: str, *, where: str, absent: bool = False) -> SuiteError:
    """The error for something that the engine said it cannot do."""
    if _NO_SPACE in text:
        return EngineDiskFull(
            f"{doing}: no space left on the engine's disk",
            where=where,
            hint="free space (`docker system df` says what holds it), then run again",
        )
    kind = MissingPrerequisite if absent else RunFailed
    return kind(f"{doing}: {text.strip()}", where=where)


def went_away(doing: str, *, where: str) -> EngineGone:
    """The error for an engine that no longer answers."""
    return EngineGone(
        f"{doing}: the container engine went away in the middle",
        where=where,
        hint="start it again, then run with --resume: whole chunks are kept, and what is left of this start is removed",
    )
