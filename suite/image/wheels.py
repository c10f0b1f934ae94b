"""The wheels that a recipe installs, downloaded by hash with pip as this machine has set it up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.image.recipe import Recipe
from suite.model.store import make_folder
from suite.observer import Observer

_ARCHITECTURE = "x86_64"
# pip does not know that a platform takes wheels made for older ones; the newest is Debian 12's glibc.
_PLATFORMS = (
    *(f"manylinux_2_{minor}_{_ARCHITECTURE}" for minor in range(36, 4, -1)),
    *(f"{name}_{_ARCHITECTURE}" for name in ("manylinux2014", "manylinux2010", "manylinux1", "linux")),
)


def ensure_wheels(recipe: Recipe, *, home: Path, observer: Observer) -> Path:
    """The folder with exactly the wheels of `recipe`, in the state folder; downloaded unless it is there.

    An index for packages that the usual ones lack (the CPU build of torch) is named by $TORCH_INDEX. Only a lock that
    cannot be had without it is looked for there: an index asked for each of 150 packages may be slow or out of reach.

    Raises:
        MissingPrerequisite: a package cannot be had, pip is absent, or the disk is full.
        VerificationFailed: an index holds another file than the lock names.
    """

    def fill(folder: Path) -> None:
        observer.phase("download wheels")
        for lock in recipe.locks:
            _download(lock, recipe.python, folder)
        observer.phase("")

    return make_folder(home / "wheels" / f"{recipe.name}-{recipe.sha256[:12]}", fill, observer)


def _download(lock: Path, python: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
    for name in _PLATFORMS:
        command += ["--platform", name]
    for abi in (f"cp{python.replace('.', '')}", "abi3", "none"):
        command += ["--abi", abi]
    command += ["--dest", str(folder), "--requirement", str(lock)]
    done = _run(command)
    index = os.environ.get("TORCH_INDEX")
    if done.returncode and index and "DO NOT MATCH THE HASHES" not in done.stderr:
        done = _run([*command, "--extra-index-url", index])
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-500:]]
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise VerificationFailed("an index holds another file than the lock names", where=str(lock), hint=lines[0])
    raise MissingPrerequisite(
        f"the wheels cannot be had: {lines[-1]}",
        where=str(lock),
        hint="check the network and pip's settings; for the CPU build of torch name its index in TORCH_INDEX, as the "
        "Makefile does; or give a folder of wheels with --wheels",
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
