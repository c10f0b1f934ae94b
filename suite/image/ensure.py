"""The one question that a run asks about images: is this manifest's image here, and is it the one that is pinned."""

from __future__ import annotations

from pathlib import Path

from suite.image.engine import Engine
from suite.image.facts import ImageFacts
from suite.image.present import PresentImage, built_image, inspect
from suite.image.recipe import load_recipe
from suite.manifest.lock import LockedBuild, LockedImage
from suite.manifest.schema import Manifest
from suite.observer import Observer


def find_image(manifest: Manifest, *, engine: Engine) -> bool:
    """Whether a run would find the image present. Nothing is fetched or checked."""
    image = manifest.runtime.image
    assert image is not None
    if image.build is not None:
        return built_image(engine, load_recipe(image.build, root=manifest.root)) is not None
    digests = {image.digest, image.platform_digest} - {None}
    return any(
        inspect(engine, f"{repository}@{digest}") is not None
        for repository in (image.repository, *image.mirrors)
        for digest in digests
    )


def ensure_image(manifest: Manifest, *, engine: Engine, home: Path, observer: Observer) -> PresentImage:
    """The image of a manifest, present in the engine and checked: pulled by digest, or built, unless it is there.

    Raises:
        InvalidInput: there is no such recipe.
        MissingPrerequisite: the image, its base or its wheels cannot be had, or a disk is full.
        RunFailed: the engine went away, or a step of the build failed.
        VerificationFailed: the image is not the one that is pinned.
    """
    image = manifest.runtime.image
    assert image is not None
    if image.build is None:
        from suite.image.pull import ensure_pulled

        return ensure_pulled(image, engine=engine, home=home, observer=observer)
    recipe = load_recipe(image.build, root=manifest.root)
    found = built_image(engine, recipe)
    if found is not None:
        return found
    from suite.image.build import build_image
    from suite.image.wheels import ensure_wheels

    observer.note(f"no image of the recipe {recipe.name} is here; it is built once")
    wheels = ensure_wheels(recipe, home=home, observer=observer)
    return build_image(recipe, wheels=wheels, engine=engine, observer=observer)


def locked(facts: ImageFacts) -> LockedImage | None:
    """What a lock says of an image that was built here; None for one of a registry, which its manifest pins."""
    if facts.build is None:
        return None
    return LockedImage(build=LockedBuild(**facts.build.model_dump()), config_digest=facts.config_digest)
