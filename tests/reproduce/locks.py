"""An honest lock whose model comes from a wheel, and ways to change it, as a stranger who writes locks would."""

from pathlib import Path
from typing import Any

from suite.files import canonical_json
from suite.manifest.lock import Lock, parse_lock
from tests.manifest.samples import CPU, CUDA, changed, lock

WHEEL = {"package": "some-model", "version": "1.0", "wheel_sha256": "a" * 64}
SOURCE = {"model": {"pypi": WHEEL, "derive": "bf16", "base": "Base-1B"}}


def honest(folder: Path, base: dict[str, Any] = CPU, /, **changes: Any) -> Lock:
    """A lock that the default policy allows."""
    return lock(folder, changed(base, SOURCE), **changes)


def container(folder: Path, **changes: Any) -> Lock:
    """The same in a container on a GPU."""
    return honest(folder, CUDA, **changes)


def altered(of: Lock, **changes: Any) -> Lock:
    """The lock with dotted keys (`a__b`) set: what a lock file can say, whether or not a manifest could."""
    value = changed(of.to_json(), as_keys(changes))
    return parse_lock(canonical_json(value), where="lock.json")


def as_keys(changes: dict[str, Any]) -> dict[str, Any]:
    """Keywords with `__` as dotted keys."""
    return {key.replace("__", "."): item for key, item in changes.items()}
