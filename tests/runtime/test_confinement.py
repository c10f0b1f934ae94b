"""What the engine is asked for, read off the request itself: GPUs cannot be let in on a machine that has none."""

import json
import os

import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.manifest.schema import Hardware
from suite.runtime.confinement import (
    Limits,
    Mount,
    choose_user,
    devices_of,
    environment_inside,
    give_to,
    host_settings,
)

CPU = Hardware(kind="cpu", architecture="x86_64", threads=1)
TWO_CUDA = Hardware(kind="cuda", architecture="9.0", gpu="H200 SXM", count=2)
ONE_ROCM = Hardware(kind="rocm", architecture="gfx942", count=1)
NVIDIA = {"Runtimes": {"nvidia": {}, "runc": {}}}
CDI = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}


def devices(hardware, information=(), *, chosen=None, is_podman=False, **places):
    return devices_of(hardware, chosen=chosen, information=dict(information), is_podman=is_podman, **places)


def requested(settings) -> dict:
    """As the engine receives it."""
    import docker

    client = docker.APIClient(base_url="unix:///nowhere.sock", version="1.43")
    value = json.loads(json.dumps(client.create_host_config(**settings)))
    client.close()
    return value


def limits() -> Limits:
    return Limits(memory_bytes=1 << 30, shared_memory_bytes=2 << 30)


def test_a_container_may_do_almost_nothing(tmp_path):
    mounts = [Mount(host=tmp_path / "model", inside="/suite/model")]
    mounts.append(Mount(host=tmp_path / "out", inside="/suite/out", writable=True))
    asked = requested(host_settings(mounts=mounts, limits=limits(), devices={}))
    assert asked["NetworkMode"] == "none"
    assert asked["ReadonlyRootfs"] is True
    assert asked["CapDrop"] == ["ALL"]
    assert "CapAdd" not in asked
    assert asked["SecurityOpt"] == ["no-new-privileges"]
    assert not asked.get("Privileged")
    assert asked["Memory"] == asked["MemorySwap"] == 1 << 30
    assert asked["ShmSize"] == 1 << 30  # never more than all memory
    assert asked["PidsLimit"] > 0
    assert asked["LogConfig"]["Type"] == "none"
    assert {m["Target"]: m["ReadOnly"] for m in asked["Mounts"]} == {"/suite/model": True, "/suite/out": False}
    assert "noexec" in asked["Tmpfs"]["/tmp"]
    told = json.dumps(asked)
    assert "docker.sock" not in told
    assert not asked.get("Devices")
    assert not asked.get("DeviceRequests")


def test_no_variable_of_this_process_goes_in(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh12345678")
    given = environment_inside({"VLLM_CPU_KVCACHE_SPACE": "1"})
    assert given["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "HF_TOKEN" not in given
    assert "PATH" not in given  # the image's own
    # What decides numbers comes from the lock, also against what a container needs.
    assert environment_inside({"TRITON_CACHE_DIR": "/suite/cache/other"})["TRITON_CACHE_DIR"] == "/suite/cache/other"


def test_a_cpu_stack_gets_no_device():
    assert devices(CPU, NVIDIA) == {}


def test_nvidia_gpus_by_id_through_the_runtime():
    (request,) = requested(devices(TWO_CUDA, NVIDIA))["DeviceRequests"]
    assert (request["Driver"], request["DeviceIDs"]) == ("nvidia", ["0", "1"])
    assert request["Capabilities"] == [["gpu"]]
    (request,) = requested(devices(TWO_CUDA, NVIDIA, chosen="3, GPU-1b2c"))["DeviceRequests"]
    assert request["DeviceIDs"] == ["3", "GPU-1b2c"]


@pytest.mark.parametrize(("information", "is_podman"), [(NVIDIA | CDI, False), (CDI, False), ({}, True)])
def test_nvidia_gpus_by_cdi_where_the_engine_knows_it(information, is_podman):
    (request,) = requested(devices(TWO_CUDA, information, is_podman=is_podman))["DeviceRequests"]
    assert (request["Driver"], request["DeviceIDs"]) == ("cdi", ["nvidia.com/gpu=0", "nvidia.com/gpu=1"])


def test_an_engine_that_knows_no_gpu_is_told_apart():
    with pytest.raises(MissingPrerequisite, match="cannot let a GPU in") as caught:
        devices(TWO_CUDA, {"Runtimes": {"runc": {}}})
    assert "nvidia-ctk" in caught.value.hint


@pytest.mark.parametrize("chosen", ["0", "0,0", "0,1,2", ","])
def test_another_number_of_gpus_than_the_stack_needs_is_refused(chosen):
    with pytest.raises(InvalidInput, match="needs 2 GPUs"):
        devices(TWO_CUDA, NVIDIA, chosen=chosen)


def test_amd_gpus_by_their_device_files(tmp_path):
    kfd, dri = tmp_path / "kfd", tmp_path / "dri"
    dri.mkdir()
    for path in (kfd, dri / "card0", dri / "renderD128", dri / "renderD129"):
        path.touch()
    found = devices(ONE_ROCM, chosen="1", kfd=kfd, dri=dri)
    asked = requested(found)
    assert [item["PathOnHost"] for item in asked["Devices"]] == [str(kfd), str(dri / "renderD129")]
    assert {item["CgroupPermissions"] for item in asked["Devices"]} == {"rw"}
    assert asked["GroupAdd"] == [str(kfd.stat().st_gid)]
    with pytest.raises(InvalidInput, match="there are 2"):
        devices(ONE_ROCM, chosen="2", kfd=kfd, dri=dri)
    with pytest.raises(MissingPrerequisite, match="device files"):
        devices(ONE_ROCM, kfd=tmp_path / "none", dri=dri)


def test_who_a_stack_runs_as(tmp_path, monkeypatch):
    (tmp_path / "file").touch(0o644)
    tmp_path.chmod(0o755)
    mounts = [Mount(host=tmp_path, inside="/suite/model")]
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(os, "getegid", lambda: 56)
    assert str(choose_user(mounts, rootless=False)) == "1234:56"
    assert str(choose_user(mounts, rootless=True)) == "0:0"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert str(choose_user(mounts, rootless=False)) == "1000:1000"
    (tmp_path / "file").chmod(0o600)
    assert str(choose_user(mounts, rootless=False)) == "0:0"
    # What the stack may write is made its own.
    writable = [Mount(host=tmp_path, inside="/suite/out", writable=True)]
    assert str(choose_user(writable, rootless=False)) == "1000:1000"
    given: list[tuple] = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid, follow_symlinks: given.append((path.name, uid, gid)))
    give_to(choose_user(writable, rootless=False), [*mounts, *writable])
    assert given == [(tmp_path.name, 1000, 1000), ("file", 1000, 1000)]
