"""Make a pinned image present: found, or pulled by digest from its repository or a mirror, and checked afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.errors import MissingPrerequisite, RunFailed, SuiteError, VerificationFailed
from suite.files import write_atomic
from suite.image.engine import Engine, EngineDiskFull, EngineGone, engine_errors, refusal
from suite.image.facts import ImageFacts, parse_facts, require_pinned
from suite.image.present import (
    PresentImage,
    diff_ids_of,
    inspect,
    labels_of_present,
    platform_of,
    require_same,
)
from suite.image.reference import ImageReference
from suite.image.registry import NotInRegistry
from suite.image.resolve import resolve_image, this_platform
from suite.manifest.identity import ConfigDigest
from suite.manifest.schema import Image
from suite.observer import Observer

_MEBIBYTE = 1 << 20
_HAS_LAYER = frozenset({"Download complete", "Already exists", "Pull complete"})


def ensure_pulled(image: Image, *, engine: Engine, home: Path, observer: Observer) -> PresentImage:
    """Return `image`, present in the engine and checked; pull it if it is not.

    The repository is asked first, then the mirrors in order; every one must have the same digest. What the registry
    said is kept in the state folder, so that a later run needs no network.

    Args:
        image: Of a manifest; its digest is pinned.
        engine: Where it is to be.
        home: The state folder.
        observer: Told the phase, and bytes as they arrive.

    Raises:
        MissingPrerequisite: no registry has it, or the engine's disk is full.
        VerificationFailed: what was pulled, or what a registry sent, is not what the manifest pins.
        RunFailed: the engine went away or refused.
    """
    assert image.digest is not None
    kept = home / "images" / f"{image.digest.removeprefix('sha256:')}.json"
    references = list(_references(image))
    present = _present(engine, references)
    facts = parse_facts(kept.read_bytes(), where=str(kept)) if kept.is_file() else None
    if present is None:
        source, facts = _pull_first(references, facts, engine, observer)
        present = inspect(engine, str(source))
        if present is None:
            raise RunFailed("the engine pulled the image and does not have it", where=str(source))
    elif facts is None:
        facts = _ask(references, observer)
    known = (facts or _from_engine(image, present)).model_copy(update={"repository": image.repository})
    require_pinned(image, known, where=str(references[0]))
    require_same(present, known, where=str(references[0]))
    if known.layers:
        write_atomic(kept, known.to_bytes())
    return PresentImage(facts=known, image_id=str(present["Id"]))


def _references(image: Image) -> Iterator[ImageReference]:
    """Where to look, best first. A mirror may hold the platform's image without the index above it."""
    assert image.repository is not None
    for repository in (image.repository, *image.mirrors):
        for digest in dict.fromkeys((image.digest, image.platform_digest)):
            if digest is not None:
                yield ImageReference(repository=repository, digest=digest)


def _present(engine: Engine, references: list[ImageReference]) -> Any:
    return next((found for item in references if (found := inspect(engine, str(item))) is not None), None)


def _pull_first(
    references: list[ImageReference], facts: ImageFacts | None, engine: Engine, observer: Observer
) -> tuple[ImageReference, ImageFacts | None]:
    failures: list[str] = []
    last: SuiteError | None = None
    for reference in references:
        try:
            known: ImageFacts | None = resolve_image(reference, platform=this_platform())
        except NotInRegistry as error:
            failures.append(f"{reference}: {error.message}")
            last = error
            continue
        except VerificationFailed:
            raise
        except SuiteError as error:
            # The engine may reach what this process cannot: it has its own proxies, certificates and logins.
            observer.note(f"{error.where}: {error.message}")
            known = facts
        try:
            pull(reference, engine=engine, observer=observer, facts=known)
        except (EngineDiskFull, EngineGone):
            raise
        except (MissingPrerequisite, RunFailed) as error:
            failures.append(f"{reference}: {error.message}")
            last = error
            continue
        return reference, known
    raise MissingPrerequisite(
        "no registry has the image: " + "; ".join(failures),
        where=str(references[0]),
        hint="images disappear after a while: name a mirror in runtime.image.mirrors, or restore an archive with "
        "`suite image restore`",
    ) from last


def _ask(references: list[ImageReference], observer: Observer) -> ImageFacts | None:
    for reference in references:
        try:
            return resolve_image(reference, platform=this_platform())
        except VerificationFailed:
            raise
        except SuiteError as error:
            observer.note(f"its registry was not asked: {error.message}")
    return None


def pull(reference: ImageReference, *, engine: Engine, observer: Observer, facts: ImageFacts | None = None) -> None:
    """Pull by digest. The engine checks every layer against the manifest, and the manifest against the digest.

    Args:
        reference: With a digest.
        engine: Where it goes.
        observer: Told the phase, and MiB as they arrive.
        facts: The sizes of its layers, if known.

    Raises:
        MissingPrerequisite: the registry does not have it, or the disk is full.
        RunFailed: the engine went away, or the pull failed otherwise.
    """
    assert reference.digest is not None
    where = str(reference)
    sizes = {layer.digest.removeprefix("sha256:")[:12]: layer.size_bytes for layer in facts.layers} if facts else {}
    total = max(1, facts.size_bytes // _MEBIBYTE) if facts else None
    observer.phase("pull image", total=total, unit="MiB")
    seen: dict[str, int] = {}
    told, failure = 0, ""
    with engine_errors("the image could not be pulled", where=where):
        # To the end also after an error, which is the last event: the connection is only then given back.
        for event in engine.api.pull(reference.repository, tag=reference.digest, stream=True, decode=True):
            failure = failure or str(event.get("error", ""))
            layer, status, detail = str(event.get("id")), event.get("status"), event.get("progressDetail") or {}
            if status == "Downloading" and detail.get("current") is not None:
                seen[layer] = int(detail["current"])
            elif status in _HAS_LAYER and layer in sizes:
                seen[layer] = sizes[layer]
            if seen:
                now = sum(seen.values()) // _MEBIBYTE
                observer.advance(now - told)
                told = now
    observer.phase("")
    if failure:
        absent = "manifest unknown" in failure or "not found" in failure
        raise refusal(failure, "the image could not be pulled", where=where, absent=absent)


def _from_engine(image: Image, present: Any) -> ImageFacts:
    """What is known where no registry could be asked: the pins, and what the engine computed when it unpacked."""
    return ImageFacts(
        repository=image.repository,
        platform=platform_of(present),
        index_digest=image.index,
        platform_digest=image.platform,
        config_digest=image.config_digest or ConfigDigest(f"sha256:{str(present['Id']).removeprefix('sha256:')}"),
        labels=labels_of_present(present),
        diff_ids=diff_ids_of(present),
    )
