"""What a container may do: almost nothing. Pure, so that what the engine is asked for can be read in a test."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.manifest.schema import Hardware
from suite.runtime.environment import FIXED

INSIDE = "/suite"
"""Folder of a container below which everything of a run is mounted."""
AGENT = f"{INSIDE}/agent"
CACHE = f"{INSIDE}/cache"
TEMPORARY = "/tmp"  # noqa: S108 - inside the container, a memory file system of its own

_GIB = 1 << 30
_UNPRIVILEGED = 1000
_KFD = Path("/dev/kfd")
_DRI = Path("/dev/dri")

# Compiled kernels and the like go to the one writable cache; nothing is compiled twice for the same image.
_PLACES = {
    "HOME": TEMPORARY,
    # A user without a name: what asks for it reads these first.
    "USER": "suite",
    "LOGNAME": "suite",
    "PYTHONPATH": AGENT,
    "PYTHONSAFEPATH": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "XDG_CACHE_HOME": CACHE,
    "XDG_CONFIG_HOME": f"{CACHE}/config",
    "HF_HOME": f"{CACHE}/huggingface",
    "VLLM_CACHE_ROOT": f"{CACHE}/vllm",
    "VLLM_CONFIG_ROOT": f"{CACHE}/config/vllm",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
    "FLASHINFER_WORKSPACE_BASE": CACHE,
    "NUMBA_CACHE_DIR": f"{CACHE}/numba",
    "CUDA_CACHE_PATH": f"{CACHE}/cuda",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one container may take of the machine."""

    memory_bytes: int
    """Of host memory, shared memory included; the kernel ends what wants more. There is no swap beyond it."""
    shared_memory_bytes: int = 8 * _GIB
    """Of /dev/shm, through which ranks exchange tensors. Docker's default of 64 MiB is too little for vLLM."""
    temporary_bytes: int = 4 * _GIB
    """Of /tmp, which lies in memory."""
    processes: int = 32_768
    """Processes and threads."""

    @classmethod
    def of_this_machine(cls) -> Limits:
        """All of its memory but a twentieth, so that it is the stack that ends when memory does."""
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(memory_bytes=total - total // 20)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A folder of this machine inside the container."""

    host: Path
    inside: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """Who the stack runs as."""

    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


def choose_user(mounts: Sequence[Mount], *, rootless: bool) -> User:
    """Nobody with rights: this user, or an unprivileged one where this user is root.

    Under a rootless engine, root of the container is this user, and every other id is nobody who could write here.
    Where root calls and a folder is closed to others, the container's root, without any capability, is the only one
    who can read it.
    """
    if rootless:
        return User(uid=0, gid=0)
    if os.geteuid() != 0:
        return User(uid=os.geteuid(), gid=os.getegid())
    if all(mount.writable or _open_to_all(mount.host) for mount in mounts):
        return User(uid=_UNPRIVILEGED, gid=_UNPRIVILEGED)
    return User(uid=0, gid=0)


def _open_to_all(folder: Path) -> bool:
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
        if mode & needed != needed:
            return False
    return True


def give_to(user: User, mounts: Sequence[Mount]) -> None:
    """Make writable folders the user's, where root calls and the stack runs as somebody else."""
    if os.geteuid() != 0:
        return
    for mount in mounts:
        if mount.writable:
            for path in (mount.host, *mount.host.rglob("*")):
                os.chown(path, user.uid, user.gid, follow_symlinks=False)


def require_no_way_out(folder: Path) -> None:
    """Refuse links and special files in a folder that a container may write: this process will read what lies there.

    A link that a stack leaves leads to a file of this machine, not of the container's.

    Raises:
        VerificationFailed: there is one.
    """
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise VerificationFailed(
                "the stack left something else than files and folders",
                where=str(path),
                hint="do not trust this image; remove the folder",
            )


def require_links_inside(folder: Path) -> None:
    """Refuse a folder to be mounted that has links out of it: inside a container they lead nowhere.

    Raises:
        InvalidInput: there is one.
    """
    root = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise InvalidInput(
                "a link that leads out of the folder cannot be followed in a container",
                where=str(path),
                hint="replace it by the file itself",
            )


def environment_inside(stack: Mapping[str, str]) -> dict[str, str]:
    """All variables that a container is given beside its image's own; nothing of this process's environment."""
    return {**_PLACES, **FIXED, **stack}


def host_settings(*, mounts: Sequence[Mount], limits: Limits, devices: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the engine's host configuration.

    Args:
        mounts: Read-only unless they say otherwise.
        limits: Of memory and processes.
        devices: From `devices_of`.
    """
    from docker.types import LogConfig
    from docker.types import Mount as EngineMount

    return {
        "mounts": [
            EngineMount(target=mount.inside, source=str(mount.host), type="bind", read_only=not mount.writable)
            for mount in mounts
        ],
        "read_only": True,
        "tmpfs": {TEMPORARY: f"rw,nosuid,nodev,noexec,mode=1777,size={limits.temporary_bytes}"},
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "privileged": False,
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "shm_size": min(limits.shared_memory_bytes, limits.memory_bytes),
        "pids_limit": limits.processes,
        # Two of one kind on one machine would end each other's first.
        "restart_policy": {"Name": "no"},
        # What the stack says is kept by the run; the engine's own copy would fill its disk.
        "log_config": LogConfig(type="none"),
        **devices,
    }


def devices_of(
    hardware: Hardware,
    *,
    chosen: str | None,
    information: Mapping[str, Any],
    is_podman: bool,
    kfd: Path = _KFD,
    dri: Path = _DRI,
) -> dict[str, Any]:
    """Arguments of the host configuration that let the stack's GPUs in, and no other.

    NVIDIA's by CDI where the engine has specifications for it (or is Podman), else by device id through NVIDIA's
    runtime; AMD's as the driver's device files, with the groups that own them.

    Args:
        hardware: Of the lock.
        chosen: Ids or UUIDs by commas ($SUITE_GPUS); None: the first ones.
        information: What the engine says of itself.
        is_podman: Whether it is Podman.
        kfd: AMD's compute device.
        dri: Folder of the render devices.

    Raises:
        InvalidInput: another number of GPUs was chosen than the stack needs.
        MissingPrerequisite: the engine cannot let them in.
    """
    if hardware.kind == "cpu":
        return {}
    ids = [part.strip() for part in chosen.split(",")] if chosen else [str(i) for i in range(hardware.count)]
    if len(set(ids)) != hardware.count or not all(ids):
        raise InvalidInput(
            f"the stack needs {hardware.count} GPUs, SUITE_GPUS names {len(set(ids))}", where=f"SUITE_GPUS={chosen}"
        )
    if hardware.kind == "rocm":
        return _amd(ids, kfd, dri)
    from docker.types import DeviceRequest

    if is_podman or _has_cdi(information):
        names = [f"nvidia.com/gpu={name}" for name in ids]
        return {"device_requests": [DeviceRequest(driver="cdi", device_ids=names)]}
    if "nvidia" in (information.get("Runtimes") or {}):
        return {"device_requests": [DeviceRequest(driver="nvidia", device_ids=ids, capabilities=[["gpu"]])]}
    raise MissingPrerequisite(
        "the container engine cannot let a GPU in",
        where="runtime: docker",
        hint="install the NVIDIA Container Toolkit and run `nvidia-ctk runtime configure`, or make CDI specifications "
        "with `nvidia-ctk cdi generate`",
    )


def _has_cdi(information: Mapping[str, Any]) -> bool:
    devices = information.get("DiscoveredDevices") or ()
    return any(str(item.get("ID", "")).startswith("nvidia.com/gpu=") for item in devices)


def _amd(ids: Sequence[str], kfd: Path, dri: Path) -> dict[str, Any]:
    render = sorted(dri.glob("renderD*"), key=lambda path: int(path.name.removeprefix("renderD")))
    if not kfd.exists() or not render:
        raise MissingPrerequisite(
            "no AMD GPU's device files are here", where=f"{kfd}, {dri}", hint="install the amdgpu driver"
        )
    try:
        files = [kfd, *(render[int(name)] for name in ids)]
    except (ValueError, IndexError) as error:
        raise InvalidInput(
            f"no such AMD GPU; there are {len(render)}, counted from 0", where=f"GPUs {','.join(ids)}"
        ) from error
    groups = sorted({path.stat().st_gid for path in files})
    return {"devices": [f"{path}:{path}:rw" for path in files], "group_add": [str(group) for group in groups]}
