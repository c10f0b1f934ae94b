"""A real vLLM in a container: built from its recipe, pushed, pulled by digest, run without a network, and compared."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.image.build import build_image
from suite.image.facts import parse_facts
from suite.image.present import built_image
from suite.image.recipe import load_recipe
from suite.image.wheels import ensure_wheels
from suite.manifest.load import load_manifest
from suite.observer import SilentObserver
from suite.run.stack import start_runtime
from suite.sbom.components import count_by_kind
from suite.sbom.read import read_components
from suite.score.ledger import read_ledger
from suite.stack.home import suite_home
from tests.agent_stack import ROOT
from tests.container_engine import containers_of
from tests.run.world import write_manifest, write_repository

pytestmark = [pytest.mark.container, pytest.mark.vllm]


@pytest.fixture
def recipe():
    return load_recipe("vllm-cpu", root=ROOT)


@pytest.fixture
def built(world, engine, recipe):
    """The image of the recipe on the Debian base, built once for this engine; its build has no network."""
    found = built_image(engine, recipe)
    if found is not None and found.facts.build is not None and world.base.endswith(found.facts.build.base):
        return found
    wheels = ensure_wheels(recipe, home=suite_home(), observer=SilentObserver())
    return build_image(recipe, wheels=wheels, engine=engine, observer=SilentObserver(), base=world.base, network="none")


def suite(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from suite.cli.main import main; main()", *arguments],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_container_gives_the_ledger_of_the_process_bit_for_bit(
    world, engine, recipe, built, smollm2, vllm_python, tmp_path
):
    root = tmp_path / "Prüfstand"
    manifests = write_repository(root, smollm2)

    # A manifest that names the recipe runs in the image as it was built.
    for name in ("dockerfiles", "requirements"):
        (root / name).symlink_to(ROOT / name)
    recipe_runtime = {"kind": "docker", "image": {"build": "vllm-cpu"}, "packages": {"vllm-cpu": "0.32.0"}}
    named = load_manifest(write_manifest(root, "from-recipe", smollm2, runtime=recipe_runtime))
    runtime = start_runtime(named, home=tmp_path / "home", root=root, observer=SilentObserver())
    assert runtime.image.facts == built.facts

    # Given away: pushed, forgotten here, and pinned by the digest that the registry computed.
    repository = f"{world.registry}/suite/vllm-cpu"
    engine.api.tag(built.image_id, repository, "1")
    for event in engine.api.push(repository, tag="1", stream=True, decode=True):
        assert "error" not in event, event
    (digest,) = {
        name.partition("@")[2]
        for name in engine.api.inspect_image(built.image_id)["RepoDigests"]
        if name.startswith(f"{repository}@")
    }
    for name in (f"{repository}:1", recipe.tag):
        engine.api.remove_image(name, force=True)
    pinned = {
        "kind": "docker",
        "image": {"repository": repository, "digest": digest, "digest_kind": "platform"},
        "packages": {"vllm-cpu": "0.32.0", "torch": "2.13.0"},
    }
    write_manifest(root, "docker-bf16", smollm2, runtime=pinned)
    write_manifest(
        root,
        "docker-kv-fp8",
        smollm2,
        runtime=pinned,
        role="candidate",
        reference="docker-bf16.yaml",
        **{"engine.kv_cache_dtype": "fp8_e4m3"},
    )

    bundles = {}
    for name in ("docker-kv-fp8", "small-kv-fp8"):
        done = suite(
            *("run", str(manifests / f"{name}.yaml"), "--repeats", "1", "--json", "--results", str(tmp_path / name)),
            SUITE_HOME=str(tmp_path / "home"),
            SUITE_VLLM_PYTHON=str(vllm_python),
        )
        assert done.returncode == 0, done.stderr
        bundles[name] = open_bundle(next((tmp_path / name / name).iterdir()))
    assert containers_of(engine, tmp_path / "home") == []
    # So that these tests find it the next time.
    engine.api.tag(built.facts.config_digest, *recipe.tag.split(":"))

    docker, process = (read_ledger(bundle.folder / "ledger.parquet").columns for bundle in bundles.values())
    assert docker.keys() == process.keys()
    for column in docker:
        assert np.array_equal(docker[column], process[column], equal_nan=docker[column].dtype.kind == "f"), column
    assert len(docker["position"]) > 500

    folder = bundles["docker-kv-fp8"].folder
    report = verify_bundle(folder)
    report.require_passed()
    facts = parse_facts((folder / "image.json").read_bytes(), where="image.json")
    assert facts.platform_digest == digest
    assert facts.config_digest == built.facts.config_digest
    assert facts.labels["suite.recipe"] == "vllm-cpu"
    assert len(facts.layers) == len(facts.diff_ids) == len(built.facts.diff_ids)
    assert json.loads((folder / "lock.json").read_bytes())["runtime"]["image"]["digest"] == digest
    counts = count_by_kind(read_components(folder))
    assert counts["dpkg"] > 50
    assert counts["python"] > 140
    told = (folder / "engine.log").read_text()
    assert "vLLM" in told or "vllm" in told
    assert str(tmp_path) not in told
