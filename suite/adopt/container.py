"""From what a container engine says of a container (`docker inspect`) to how its server was started."""

from __future__ import annotations

from typing import Any

from suite.adopt.invocation import Invocation, inside_image
from suite.errors import InvalidInput
from suite.image.reference import parse_reference
from suite.untyped import as_dict


def of_container(
    container: dict[str, Any], image: dict[str, Any] | None = None, *, where: str = "inspect"
) -> Invocation:
    """How a container's server was started.

    Args:
        container: One object of `docker inspect CONTAINER`.
        image: One object of `docker inspect IMAGE`, if it is at hand: it tells the image's digest, and which variables
            are the image's own.
        where: Where the object comes from, for errors.

    Raises:
        InvalidInput: not such an object, or not a vLLM server.
    """
    config = container.get("Config")
    if not isinstance(config, dict) or not isinstance(config.get("Image"), str):
        raise InvalidInput(
            "not what `docker inspect` prints for a container", where=where, hint="give one container's JSON"
        )
    own = _variables(as_dict((image or {}).get("Config")).get("Env"))
    environment = {k: v for k, v in _variables(config.get("Env")).items() if own.get(k) != v}
    arguments, inner = inside_image(_list(config.get("Cmd")), entrypoint=_list(config.get("Entrypoint")) or None)
    return Invocation(
        image=config["Image"],
        arguments=arguments,
        environment=environment | inner,
        mounts=_mounts(container.get("Mounts")),
        image_digests=_digests(container, image, config["Image"]),
    )


def _digests(container: dict[str, Any], image: dict[str, Any] | None, name: str) -> dict[str, str]:
    found = {}
    if isinstance(config := container.get("Image"), str) and config.startswith("sha256:"):
        found["config_digest"] = config
    repository = parse_reference(name).repository
    for text in _list((image or {}).get("RepoDigests")):
        known, _, digest = text.partition("@")
        if digest and known.removeprefix("docker.io/") == repository.removeprefix("docker.io/"):
            found["digest"] = digest
    return found


def _mounts(value: Any) -> dict[str, str]:
    return {
        mount["Destination"]: mount["Source"]
        for mount in (value if isinstance(value, list) else [])
        if isinstance(mount, dict)
        and mount.get("Type") == "bind"
        and isinstance(mount.get("Destination"), str)
        and isinstance(mount.get("Source"), str)
    }


def _variables(value: Any) -> dict[str, str]:
    return dict(text.partition("=")[::2] for text in _list(value) if "=" in text)


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
