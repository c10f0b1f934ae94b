"""Images that the engine of this machine holds: found, and checked against what was pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from suite.errors import VerificationFailed
from suite.image.engine import Engine, engine_errors
from suite.image.facts import Build, ImageFacts
from suite.image.recipe import LABEL_BASE, LABEL_RECIPE, LABEL_SHA256, Recipe
from suite.manifest.identity import ConfigDigest, Sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class PresentImage:
    """An image that the engine holds and that has been checked."""

    facts: ImageFacts
    image_id: str
    """By what the engine is told to start it: a digest, never a name."""


def inspect(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """What the engine says of the image `name`; None if it does not hold it."""
    import docker.errors

    with engine_errors("the engine could not be asked", where=name):
        try:
            found: Mapping[str, Any] = engine.api.inspect_image(name)
        except docker.errors.ImageNotFound:
            return None
    return found


def platform_of(found: Mapping[str, Any]) -> str:
    """The platform of an inspected image, for instance `linux/amd64`."""
    return f"{found.get('Os') or 'linux'}/{found.get('Architecture') or 'unknown'}"


def diff_ids_of(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Digests of an inspected image's uncompressed layers."""
    return tuple((found.get("RootFS") or {}).get("Layers") or ())


def labels_of_present(found: Mapping[str, Any]) -> dict[str, str]:
    """Labels of an inspected image."""
    return dict((found.get("Config") or {}).get("Labels") or {})


def digests_of(found: Mapping[str, Any]) -> set[str]:
    """Every digest by which the engine knows an inspected image.

    Engines with Docker's own store call an image by its configuration's digest; those with containerd's store, by its
    manifest's or index's.
    """
    digests = {str(found.get("Id", "")), str((found.get("Descriptor") or {}).get("digest", ""))}
    digests |= {str(name).partition("@")[2] for name in found.get("RepoDigests") or ()}
    # Podman's ids have no algorithm in front.
    return {value if value.startswith("sha256:") else f"sha256:{value}" for value in digests if value}


def require_same(found: Mapping[str, Any], facts: ImageFacts, *, where: str) -> None:
    """Refuse a present image that is not the one of `facts`.

    The uncompressed layers decide: their digests are computed by the engine when it unpacks them.

    Raises:
        VerificationFailed: another image, or one with other layers.
    """
    known = {facts.index_digest, facts.platform_digest, facts.config_digest} - {None}
    if not known & digests_of(found):
        raise VerificationFailed(
            f"the engine holds another image: {found.get('Id')}, expected the configuration {facts.config_digest}",
            where=where,
            hint="remove it (`docker image rm`) and pull again",
        )
    if diff_ids_of(found) != facts.diff_ids:
        raise VerificationFailed(
            "the image that the engine holds has other layers than its configuration names",
            where=where,
            hint="remove it (`docker image rm`) and pull again",
        )


def built_image(engine: Engine, recipe: Recipe) -> PresentImage | None:
    """The image that was built here from exactly this recipe; None if there is none."""
    found = inspect(engine, recipe.tag)
    if found is None:
        return None
    labels = labels_of_present(found)
    if (labels.get(LABEL_RECIPE), labels.get(LABEL_SHA256)) != (recipe.name, recipe.sha256) or LABEL_BASE not in labels:
        return None
    facts = ImageFacts(
        platform=platform_of(found),
        config_digest=ConfigDigest(f"sha256:{str(found['Id']).removeprefix('sha256:')}"),
        labels=labels,
        diff_ids=diff_ids_of(found),
        build=Build(recipe=recipe.name, recipe_sha256=Sha256(recipe.sha256), base=labels[LABEL_BASE]),
    )
    return PresentImage(facts=facts, image_id=str(found["Id"]))
