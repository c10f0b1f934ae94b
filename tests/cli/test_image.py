import json

import pytest
from click.testing import CliRunner

from suite.cli.image import image
from suite.errors import InvalidInput, MissingPrerequisite
from suite.image.facts import parse_facts
from suite.image.resolve import this_platform
from tests.container_engine import base, engine, world  # noqa: F401 - fixtures
from tests.image.stub import serving
from tests.manifest.samples import CPU, CUDA, changed, write


def run(*arguments):
    result = CliRunner().invoke(image, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_resolve_prints_lines_for_a_manifest():
    with serving() as stub:
        stub.add_index("v1", amd64=stub.add_image(labels={"a": "b"}))
        result = run("resolve", f"{stub.repository}:v1", "--platform", "linux/amd64")
        facts = run("resolve", f"{stub.repository}:v1", "--platform", "linux/amd64", "--json")
    lines = dict(line.strip().split(": ", 1) for line in result.stdout.splitlines() if ": " in line)
    assert lines["repository"] == stub.repository
    assert lines["digest_kind"] == "index"
    assert lines["tag_seen"] == "v1"
    assert lines["digest"] != lines["platform_digest"] != lines["config_digest"]
    assert "linux/amd64, 2 layers" in result.stderr
    assert parse_facts(facts.stdout_bytes, where="stdout").index_digest == lines["digest"]


def test_what_is_no_image_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="a tag is refused"):
        run("archive", "debian:12", tmp_path / "archive")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="cannot be read"):
        run("restore", tmp_path / "empty")
    with pytest.raises(InvalidInput, match="the repository alone"):
        run("restore", tmp_path / "empty", "127.0.0.1:5000/a:tag")
    with pytest.raises(InvalidInput, match="no recipe"):
        run("build", "absent", "--root", tmp_path)


def test_verify_without_an_engine_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(MissingPrerequisite, match="no container engine answers"):
        run("verify", write(tmp_path, "a.yaml", CUDA))
    with pytest.raises(InvalidInput, match="its runtime is a process"):
        run("verify", write(tmp_path, "b.yaml", CPU))


@pytest.mark.container
def test_verify_archive_and_restore(world, engine, tmp_path, monkeypatch):  # noqa: F811 - fixtures
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    repository, _, digest = world.base.partition("@")
    pinned = {"kind": "docker", "image": {"repository": repository, "digest": digest}}
    path = write(tmp_path, "a.yaml", changed(CPU, {"runtime": pinned}))
    assert f"{path}: {digest}, configuration sha256:" in run("verify", path).stdout
    told = json.loads(run("verify", path, "--json").stdout)
    assert told["images"][str(path)]["platform"] == this_platform()
    with pytest.raises(InvalidInput, match="its runtime is a process"):
        run("verify", write(tmp_path, "b.yaml", CPU))
    assert run("archive", world.base, tmp_path / "archive").stdout.startswith(digest)
    assert run("restore", tmp_path / "archive").stdout == f"{digest}  whole\n"
    target = f"{world.registry}/suite-test/from-the-command-line"
    assert run("restore", tmp_path / "archive", target).stdout == f"{target}@{digest}\n"
