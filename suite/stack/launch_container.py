"""The part of a launch command that is `docker run`: devices, mounts, variables, and what the container may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.errors import InvalidInput
from suite.manifest.schema import Hardware
from suite.stack.launchable import Launchable

MODEL_MOUNT = "/model"
CACHE_VOLUME = "suite-models"
"""Named volume in which a launched container keeps what it fetches: no path of any machine stands in the command."""

_CACHE_MOUNT = "/models"
# Ranks exchange tensors through shared memory; docker's own 64 MB are too little.
_SHM = {"cpu": "1g", "cuda": "16g", "rocm": "16g"}


def container_arguments(
    stack: Launchable,
    environment: Mapping[str, str],
    *,
    folder: str | None,
    port: int,
    devices: Sequence[str] | None,
    program: str,
) -> list[str]:
    """`docker run ...` up to the image's name; the server's own arguments follow.

    Args:
        stack: One that is measured in a container.
        environment: Variables of the server.
        folder: The checkpoint's on this machine; None where the container fetches it.
        port: On the loopback interface.
        devices: Indices, UUIDs or CDI names of GPUs; by default the first ones.
        program: What runs in the image.

    Raises:
        InvalidInput: the image has no digest.
    """
    image = stack.runtime.image
    assert image is not None
    # An image that was built here has no repository: its configuration's digest names it on this machine.
    name = image.pinned_name
    if name is None:
        raise InvalidInput(
            "the image has no digest",
            where=stack.name,
            hint="pin runtime.image.digest; a tag is never launched, and a recipe has no digest before it is built",
        )
    mount = (
        f"type=volume,src={CACHE_VOLUME},dst={_CACHE_MOUNT}"
        if folder is None
        else f"type=bind,{_field(f'src={folder}')},dst={MODEL_MOUNT},readonly"
    )
    # Whoever the image runs as: what it fetches belongs into the volume.
    inside = dict(environment) | ({"HF_HOME": _CACHE_MOUNT} if folder is None else {})
    variables = [part for name, value in sorted(inside.items()) for part in ("--env", f"{name}={value}")]
    return [
        "docker", "run", "--rm",
        *_gpus(stack.hardware, devices),
        "--shm-size", _SHM[stack.hardware.kind],
        "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges",
        "--publish", f"127.0.0.1:{port}:8000",
        "--mount", mount,
        *variables,
        # Images of different versions start in different ways; this one is the same for all.
        "--entrypoint", program,
        name,
    ]  # fmt: skip


def _gpus(hardware: Hardware, devices: Sequence[str] | None) -> list[str]:
    if hardware.kind == "cpu":
        return []
    if hardware.kind == "rocm":
        # The runtime gives all of them; which ones are used is said by a variable.
        chosen = ["--env", f"HIP_VISIBLE_DEVICES={','.join(devices)}"] if devices else []
        return ["--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video", *chosen]
    named = list(devices) if devices else [str(index) for index in range(hardware.count)]
    if all("=" in name for name in named):
        return [part for name in named for part in ("--device", name)]
    return ["--gpus", _field("device=" + ",".join(named))]


def _field(text: str) -> str:
    """One field of the comma-separated values that docker reads."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text
