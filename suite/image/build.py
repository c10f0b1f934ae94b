"""Build an image from a recipe with the engine's own builder, from wheels that are all locked by hash."""

from __future__ import annotations

import io
import os
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from suite.errors import InvalidInput, RunFailed
from suite.image.engine import Engine, engine_errors, refusal
from suite.image.present import PresentImage, built_image, inspect
from suite.image.recipe import LABEL_BASE, LABEL_RECIPE, LABEL_SHA256, Recipe, pinned_base
from suite.image.reference import pinned_reference
from suite.observer import Observer

# What the classic builder leaves of a stage; the stage itself is marked by its Dockerfile.
_STAGE_LABEL = "suite.stage"
_STEP = re.compile(r"^Step ([0-9]+)/([0-9]+) : (\S+)")
_LAST_LINES = 20


def build_image(
    recipe: Recipe,
    *,
    wheels: Path,
    engine: Engine,
    observer: Observer,
    base: str | None = None,
    network: str | None = None,
) -> PresentImage:
    """Build and return the image; one that was built from the same recipe is replaced.

    Args:
        recipe: What to build.
        wheels: Folder of wheels; the lock files decide by hash which are installed.
        engine: Where.
        observer: Told each step.
        base: Another base, `NAME@sha256:…`, than the recipe's.
        network: The engine's network for the build's steps; None for its default. `none` is enough where the base
            has everything that the recipe would fetch from its distribution.

    Raises:
        InvalidInput: a base without digest, or no wheels in the folder.
        MissingPrerequisite: the base cannot be pulled, or the engine's disk is full.
        RunFailed: a step failed.
    """
    chosen = recipe.base if base is None else pinned_base(base)
    files = sorted(wheels.glob("*.whl"))
    if recipe.locks and not files:
        raise InvalidInput("no wheel there", where=str(wheels), hint="leave --wheels out to have them downloaded")
    from suite.image.pull import pull

    reference = pinned_reference(chosen)
    if inspect(engine, str(reference)) is None:
        pull(reference, engine=engine, observer=observer)
    observer.phase("build image")
    with engine_errors("the image could not be built", where=recipe.name), _context(recipe, files) as context:
        events = engine.api.build(
            fileobj=context,
            custom_context=True,
            tag=recipe.tag,
            buildargs={"BASE": chosen},
            labels={LABEL_RECIPE: recipe.name, LABEL_SHA256: recipe.sha256, LABEL_BASE: str(reference.digest)},
            network_mode=network,
            rm=True,
            forcerm=True,
            decode=True,
            # The client's settings may name a proxy with its password.
            use_config_proxy=False,
        )
        _follow(events, recipe, observer)
        engine.api.prune_images(filters={"dangling": True, "label": [f"{_STAGE_LABEL}={recipe.name}"]})
    observer.phase("")
    built = built_image(engine, recipe)
    if built is None:
        raise RunFailed("the engine built the image and does not have it", where=recipe.tag)
    return built


def _follow(events: Iterator[dict[str, Any]], recipe: Recipe, observer: Observer) -> None:
    lines: list[str] = []
    failure = ""
    # To the end also after an error, which is the last event: the connection is only then given back.
    for event in events:
        failure = failure or str(event.get("error", ""))
        for line in str(event.get("stream", "")).splitlines():
            lines = [*lines[-_LAST_LINES:], line]
            if match := _STEP.match(line):
                observer.note(f"build step {match[1]} of {match[2]}: {match[3]}")
    if failure:
        told = "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])
        error = refusal(failure, "the image could not be built", where=recipe.name)
        error.hint = f"{error.hint or 'the end of what the builder said:'}\n{told}"
        raise error


@contextmanager
def _context(recipe: Recipe, wheels: list[Path]) -> Iterator[IO[bytes]]:
    """The build context as a stream, never whole on disk or in memory."""
    reading, writing = os.pipe()

    def write() -> None:
        # The builder may end before it has read everything; its own message then says why.
        with (
            os.fdopen(writing, "wb") as sink,
            suppress(BrokenPipeError),
            tarfile.open(fileobj=sink, mode="w|") as archive,
        ):
            _add(archive, "Dockerfile", recipe.dockerfile)
            for lock in recipe.locks:
                _add(archive, f"requirements/{lock.name}", lock.read_bytes())
            for wheel in wheels:
                archive.add(wheel, arcname=f"wheels/{wheel.name}", recursive=False, filter=_anonymous)

    writer = threading.Thread(target=write, name="suite-build-context", daemon=True)
    with os.fdopen(reading, "rb") as source:
        writer.start()
        yield source
    writer.join()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who downloaded a wheel, and when, is no part of an image."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
