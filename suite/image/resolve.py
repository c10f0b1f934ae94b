"""From a name to digests (index, platform manifest, configuration, layers), by asking a registry."""

from __future__ import annotations

import platform
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.image.facts import ImageFacts, Layer
from suite.image.reference import ImageReference
from suite.image.registry import Document, Registry
from suite.manifest.identity import ConfigDigest, IndexDigest, PlatformDigest

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


def this_platform() -> str:
    """The platform of images that run here, for instance `linux/amd64`."""
    machine = platform.machine()
    return f"linux/{_MACHINES.get(machine, machine)}"


def resolve_image(reference: ImageReference, *, platform: str) -> ImageFacts:
    """Ask the registry what `reference` is. Every document is checked against the digest that named it.

    Args:
        reference: With a tag or a digest; `latest` if it has neither.
        platform: Which image of an index.

    Raises:
        InvalidInput: no image for that platform, or not an image at all.
        MissingPrerequisite: the registry cannot be reached or does not have it.
        VerificationFailed: the registry sent something else than a digest names.
    """
    registry = Registry(reference)
    first = registry.manifest(reference.digest or reference.tag or "latest")
    where = str(reference)
    index: IndexDigest | None = None
    found = first
    if first.is_index:
        index = IndexDigest(first.digest)
        found = registry.manifest(_for_platform(first, platform, where))
        if found.is_index:
            raise InvalidInput("an index inside an index", where=where)
    manifest = _object(found.data, where)
    config_digest = _text(manifest.get("config"), "digest", where)
    config = _object(registry.blob(config_digest), where)
    has = f"{config.get('os')}/{config.get('architecture')}"
    if has != "/".join(platform.split("/")[:2]):
        raise InvalidInput(f"this image is for {has}, not for {platform}", where=where)
    return ImageFacts(
        repository=reference.repository,
        platform=platform,
        index_digest=index,
        platform_digest=PlatformDigest(found.digest),
        config_digest=ConfigDigest(config_digest),
        labels=labels_of(config),
        layers=tuple(
            Layer(digest=item["digest"], size_bytes=item["size"], media_type=item["mediaType"])
            for item in manifest.get("layers", [])
        ),
        diff_ids=tuple(config.get("rootfs", {}).get("diff_ids", ())),
    )


def labels_of(config: dict[str, Any]) -> dict[str, str]:
    """The labels in an image's configuration."""
    labels = (config.get("config") or {}).get("Labels") or {}
    return {str(name): str(value) for name, value in labels.items()}


def platforms_of(index: Document, *, where: str) -> dict[str, str]:
    """Platform -> digest of its manifest; attestations, which stand for no platform, are left out.

    Raises:
        InvalidInput: not an index.
    """
    found: dict[str, str] = {}
    for entry in _object(index.data, where).get("manifests", []):
        about = entry.get("platform", {}) if isinstance(entry, dict) else {}
        name = "/".join(str(about[key]) for key in ("os", "architecture", "variant") if about.get(key))
        if name and "unknown" not in name:
            found[name] = _text(entry, "digest", where)
    return found


def _for_platform(index: Document, wanted: str, where: str) -> str:
    platforms = platforms_of(index, where=where)
    # An entry may carry a variant (linux/arm64/v8) that the caller did not name.
    for name, digest in platforms.items():
        if name == wanted or name.startswith(f"{wanted}/"):
            return digest
    raise InvalidInput(
        f"no image for {wanted}; there are images for {', '.join(platforms) or 'no platform'}", where=where
    )


def _object(data: bytes, where: str) -> dict[str, Any]:
    value = strict_json(data, where=where)
    if not isinstance(value, dict):
        raise InvalidInput("not a JSON object", where=where)
    return value


def _text(entry: Any, key: str, where: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise InvalidInput(f"the manifest has no {key}", where=where)
    return value
