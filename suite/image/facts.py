"""What is known of one image: its digests, kept apart, its labels and layers. A bundle keeps it as `image.json`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from suite.errors import VerificationFailed
from suite.files import pretty_json
from suite.manifest.engine import Strict
from suite.manifest.identity import (
    ConfigDigestField,
    ImageDigestField,
    IndexDigestField,
    PlatformDigestField,
    Sha256Field,
)
from suite.manifest.lock import LockedImage
from suite.manifest.schema import BuildName, Image, ImageName
from suite.records import parse_strictly

FACTS_NAME = "image.json"
SCHEMA_VERSION = 1

Text = Annotated[str, StringConstraints(max_length=65_536)]


class Layer(Strict):
    """One layer as a registry holds it."""

    digest: ImageDigestField
    """Of the stored blob, which is usually compressed."""
    size_bytes: int = Field(ge=0)
    media_type: Annotated[str, StringConstraints(max_length=200)]


class Build(Strict):
    """How an image was made here."""

    recipe: BuildName
    recipe_sha256: Sha256Field
    """Over the Dockerfile and the lock files that it installs."""
    base: ImageDigestField
    """Of the image that stood in its FROM lines; where it came from is nobody's business."""


class ImageFacts(Strict):
    """One image for one platform."""

    schema_version: Literal[1] = 1
    repository: ImageName | None = None
    """None for an image that was built here."""
    platform: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?$", max_length=60)]
    """`linux/amd64`, for instance."""
    index_digest: IndexDigestField | None = None
    """None where the image is not one of an index."""
    platform_digest: PlatformDigestField | None = None
    """None for an image that no registry holds: only a registry's manifest has this digest."""
    config_digest: ConfigDigestField
    labels: dict[Text, Text] = Field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    """In a registry; empty where no registry could be asked."""
    diff_ids: tuple[ImageDigestField, ...]
    """Digests of the uncompressed layers, which the configuration names."""
    build: Build | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.repository is None) == (self.build is None):
            raise ValueError("an image comes from a repository or from a build")
        if self.layers and len(self.layers) != len(self.diff_ids):
            raise ValueError(f"{len(self.layers)} layers, but {len(self.diff_ids)} uncompressed ones")
        return self

    @property
    def size_bytes(self) -> int:
        """Size of the layers as a registry sends them."""
        return sum(layer.size_bytes for layer in self.layers)

    def to_bytes(self) -> bytes:
        """The content of `image.json`."""
        return pretty_json(self.model_dump(mode="json", exclude_none=True))


def parse_facts(data: bytes, *, where: str) -> ImageFacts:
    """Read what `ImageFacts.to_bytes` wrote, strictly.

    Raises:
        InvalidInput: not strict JSON, a newer schema version, or something else.
    """
    return parse_strictly(ImageFacts, data, where=where, newest=SCHEMA_VERSION, what="not facts about an image: ")


def require_pinned(image: Image | LockedImage, facts: ImageFacts, *, where: str) -> None:
    """Refuse facts that are not of the image that a manifest or lock pins. What one side does not know is passed over.

    Raises:
        VerificationFailed: the first difference.
    """
    platform = image.digest if image.digest_kind == "platform" else image.platform_digest
    pins: list[tuple[str, object, object]] = [
        ("digest (an index)", image.digest if image.digest_kind == "index" else None, facts.index_digest),
        ("platform_digest", platform, facts.platform_digest),
        ("config_digest", image.config_digest, facts.config_digest),
    ]
    if isinstance(image.build, str):
        pins.append(("build", image.build, facts.build and facts.build.recipe))
    elif image.build is not None:
        pins.append(("build", image.build.model_dump(), facts.build and facts.build.model_dump()))
    elif (
        facts.index_digest and facts.platform_digest and image.digest not in (facts.index_digest, facts.platform_digest)
    ):
        pins.append(("digest", image.digest, facts.index_digest))
    for key, pinned, found in pins:
        if pinned is not None and found is not None and pinned != found:
            raise VerificationFailed(
                f"runtime.image.{key} is {pinned}, found {found}",
                where=where,
                hint="correct the manifest: the digests were taken from different images",
            )
