import json

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, MissingPrerequisite
from suite.manifest.load import load_manifest
from tests.adopt.test_container import CONTAINER
from tests.container_engine import base, engine, world  # noqa: F401
from tests.manifest.samples import REVISION

RUN = f"docker run --gpus all vllm/vllm-openai@sha256:{'a' * 64} owner/name --revision {REVISION} --max-num-seqs 4"


def run(*arguments, fails=None, **options):
    result = CliRunner().invoke(cli, ["manifest", *map(str, arguments)], **options)
    if fails is None:
        assert result.exit_code == 0, result.output
    else:
        assert isinstance(result.exception, fails), result.output
    return result


def test_a_command_becomes_a_file_that_loads(tmp_path):
    out = tmp_path / "mine.yaml"
    told = run("from-command", RUN, "--gpu", "RTX 5090", "--out", out).output
    assert "guessed: dtype" in told
    loaded = load_manifest(out)
    assert loaded.serve.max_num_seqs == 4
    assert out.read_text().startswith("# guessed: ")
    printed = run("from-command", "-", "--gpu", "RTX 5090", input=RUN).output
    assert printed == out.read_text()


def test_a_process_is_pinned_by_the_version_that_is_named():
    value = json.loads(run("from-command", "vllm serve ./m", "--gpu", "RTX 5090", "--vllm", "0.31.0", "--json").output)
    assert value["manifest"]["runtime"]["packages"] == {"vllm": "0.31.0"}


def test_the_file_is_also_written_where_json_is_printed(tmp_path):
    out = tmp_path / "mine.yaml"
    value = json.loads(run("from-command", RUN, "--gpu", "RTX 5090", "--out", out, "--json").output)
    assert load_manifest(out).name == value["manifest"]["name"]


def test_what_docker_inspect_printed_and_a_compose_file(tmp_path):
    inspected = tmp_path / "container.json"
    inspected.write_text(json.dumps([CONTAINER]))
    assert "path: /data/m" in run("from-container", inspected, "--gpu", "RTX 5090").output
    compose = tmp_path / "compose.yaml"
    compose.write_text(f"services: {{a: {{image: vllm/vllm-openai:v1, command: [a/b, --revision, '{REVISION}']}}}}")
    text = run("from-container", compose, "--gpu", "RTX 5090").output
    assert "missing: runtime.image.digest" in text
    assert "repository: a/b" in text


def test_what_is_no_container_is_told(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    run("from-container", tmp_path / "x.json", fails=InvalidInput)
    (tmp_path / "y.json").write_text("{}")
    assert "y.json: " in str(run("from-container", tmp_path / "y.json", fails=InvalidInput).exception)
    run("from-container", tmp_path / "absent.yaml", fails=InvalidInput)


@pytest.mark.container
def test_a_container_of_a_real_engine_is_adopted_by_its_digest(world, engine, base, tmp_path):  # noqa: F811
    made = engine.api.create_container(
        image=base.image_id,
        command=["vllm", "serve", "/models/m", "--max-num-seqs", "4", "--revision", "main"],
        environment={"VLLM_CPU_KVCACHE_SPACE": "2", "HF_TOKEN": "hf_" + "x" * 30},
        host_config=engine.api.create_host_config(binds=[f"{tmp_path}:/models:ro"]),
    )
    try:
        value = json.loads(run("from-container", made["Id"], "--json").output)
    finally:
        engine.api.remove_container(made["Id"], force=True)
    manifest = value["manifest"]
    assert manifest["model"] == {"path": f"{tmp_path}/m"}
    assert manifest["environment"] == {"VLLM_CPU_KVCACHE_SPACE": "2"}
    assert manifest["hardware"]["kind"] == "cpu"
    assert manifest["serve"]["max_num_seqs"] == 4
    assert value["left_out"][0].startswith("HF_TOKEN: ")
    run("from-container", "no-such-container", fails=MissingPrerequisite)
