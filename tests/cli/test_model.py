import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.files import sha256_bytes

MANIFEST = """
extends: {base}
name: mine
role: reference
model:
  path: {model}
  base: tiny
  weight_format: bf16
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    return lambda *arguments: CliRunner().invoke(cli, list(arguments))


def test_list_says_what_is_kept(run, tmp_path):
    folder = tmp_path / "home" / "models" / "gguf" / "tiny-1.0-abc"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(bytes(2_500_000))
    done = run("model", "list")
    assert done.output.split() == ["gguf", "2.5", "MB", "tiny-1.0-abc"]
    listed = json.loads(run("model", "list", "--json").output)
    assert listed["schema_version"] == 1
    assert listed["models"][0]["size_bytes"] == 2_500_000


def test_list_of_nothing_says_where_it_looked(run, tmp_path):
    assert run("model", "list").output == f"no model in {tmp_path / 'home' / 'models'}\n"


def test_an_unknown_scheme_is_invalid_input(run, tmp_path):
    done = run("model", "derive", "w2a2", str(tmp_path))
    assert getattr(done.exception, "exit_code", None) == 2
    assert "known: bf16, w8a8-int8" in str(done.exception)


def test_fetch_prints_the_folder_or_its_hashes(run, tmp_path):
    checkout = tmp_path / "checkout"
    model = checkout / "manifests" / "weights"
    model.mkdir(parents=True)
    (checkout / "workloads").mkdir()
    (model / "config.json").write_bytes(b"{}")
    (model / "model.safetensors").write_bytes(b"weights")
    shipped = Path(__file__).parents[2] / "manifests" / "_base" / "cpu.yaml"
    (checkout / "manifests" / "_cpu.yaml").write_text(shipped.read_text())
    manifest = checkout / "manifests" / "mine.yaml"
    manifest.write_text(MANIFEST.format(base="_cpu.yaml", model="weights"))
    assert run("model", "fetch", str(manifest)).output.strip() == str(model)
    answer = json.loads(run("model", "fetch", "--json", str(manifest)).output)
    assert answer["models"][0]["files"][1] == {
        "path": "model.safetensors",
        "size_bytes": 7,
        "sha256": sha256_bytes(b"weights"),
    }
    (model / "config.json").unlink()
    done = run("model", "fetch", str(manifest))
    assert getattr(done.exception, "exit_code", None) == 3
