"""Stacks that are only asked a question: for their flags, or their rules. No GPU is given to them, and no model."""

from __future__ import annotations

import os
from pathlib import Path

from suite.image.engine import connected
from suite.image.ensure import ensure_image
from suite.image.present import PresentImage
from suite.image.pull import ensure_pulled
from suite.image.reference import pinned_reference
from suite.manifest.lock import LockedRuntime
from suite.manifest.schema import Hardware, Image, Manifest
from suite.observer import Observer
from suite.runtime.docker import DockerRuntime
from suite.runtime.process import ProcessRuntime, find_interpreter

_NO_GPU = Hardware(kind="cpu", architecture="x86_64", threads=1)


def of_manifest(manifest: Manifest, *, home: Path, root: Path, observer: Observer) -> ProcessRuntime | DockerRuntime:
    """The runtime of a manifest's stack.

    Raises:
        InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed: see `ensure_image` and `find_interpreter`.
    """
    if manifest.runtime.kind == "process":
        return of_interpreter(manifest.runtime.python, home=home, root=root)
    with connected() as engine:
        return _container(ensure_image(manifest, engine=engine, home=home, observer=observer), home)


def of_interpreter(named: str | None, *, home: Path, root: Path) -> ProcessRuntime:
    """The runtime of an interpreter; None or `auto` looks for one.

    Raises:
        MissingPrerequisite: there is none.
    """
    return ProcessRuntime(find_interpreter(named, os.environ, root), home=home)


def of_image(name: str, *, home: Path, observer: Observer) -> DockerRuntime:
    """The runtime of `NAME@sha256:…`, pulled if it is not here.

    Raises:
        InvalidInput: a tag.
        MissingPrerequisite, RunFailed, VerificationFailed: see `ensure_pulled`.
    """
    reference = pinned_reference(name)
    image = Image(repository=reference.repository, digest=reference.digest)
    with connected() as engine:
        return _container(ensure_pulled(image, engine=engine, home=home, observer=observer), home)


def of_lock(runtime: LockedRuntime, *, home: Path, root: Path, observer: Observer) -> ProcessRuntime | DockerRuntime:
    """The runtime of a lock's stack; the image of one that was built is that of this machine.

    Raises:
        MissingPrerequisite: it is not here, and cannot be had.
        InvalidInput, RunFailed, VerificationFailed: see `of_image`.
    """
    image = runtime.image
    if image is None:
        return of_interpreter("auto", home=home, root=root)
    if image.digest is not None:
        return of_image(f"{image.repository}@{image.digest}", home=home, observer=observer)
    from suite.errors import MissingPrerequisite

    raise MissingPrerequisite(
        "its image was built on the machine that measured it",
        where=f"{image.config_digest}",
        hint="ask by the manifest instead, which builds it from the same recipe",
    )


def _container(image: PresentImage, home: Path) -> DockerRuntime:
    return DockerRuntime(image, hardware=_NO_GPU, home=home)
