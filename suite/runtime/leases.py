"""Which containers are somebody's: each carries a label that names a lock, which its owner holds while it lives."""

from __future__ import annotations

import fcntl
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.image.engine import Engine, engine_errors
from suite.observer import Observer

LABEL_HOME = "suite.home"
LABEL_LEASE = "suite.lease"


@contextmanager
def lease(home: Path) -> Iterator[dict[str, str]]:
    """The labels for a container; while the block runs, nobody takes it for abandoned.

    The kernel frees the lock when the process dies, however it dies.
    """
    token = secrets.token_hex(8)
    folder = home / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{token}.lock"
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        try:
            yield {LABEL_HOME: _name(home), LABEL_LEASE: token}
        finally:
            path.unlink(missing_ok=True)


def remove_abandoned(engine: Engine, home: Path, observer: Observer) -> int:
    """Remove containers of this state folder whose owner is gone; returns how many there were.

    Raises:
        RunFailed: the engine went away.
    """
    removed = 0
    with engine_errors("containers of an earlier run could not be removed", where=str(home)):
        filters = {"label": f"{LABEL_HOME}={_name(home)}"}
        for container in engine.api.containers(all=True, filters=filters):
            token = str((container.get("Labels") or {}).get(LABEL_LEASE, ""))
            if _is_held(home / "containers" / f"{token}.lock"):
                continue
            remove(engine, container["Id"])
            removed += 1
    if removed:
        observer.note(f"removed {removed} container{'s' if removed > 1 else ''} that an interrupted run had left")
    return removed


def remove(engine: Engine, container: str) -> None:
    """Kill and remove a container with its volumes; one that is gone already is no error."""
    import docker.errors

    try:
        engine.api.remove_container(container, v=True, force=True)
    except docker.errors.NotFound:
        return
    except docker.errors.APIError as error:
        # 409: somebody else is removing it at this moment.
        if error.status_code != 409:
            raise


def _name(home: Path) -> str:
    """Names the state folder without telling where it is."""
    return hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]


def _is_held(path: Path) -> bool:
    try:
        with path.open("r+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    path.unlink(missing_ok=True)
    return False
