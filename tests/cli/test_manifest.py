import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from suite.cli.manifest import manifest
from suite.errors import InvalidInput, SuiteError
from tests.manifest.samples import CPU, ROOT, changed, lock, write


def run(*arguments: object) -> Result:
    return CliRunner().invoke(manifest, [str(argument) for argument in arguments])


def test_check_ok_warning_and_summary(tmp_path: Path) -> None:
    value = changed(CPU, {"model.revision": None, "missing": {"model.revision": "not found"}})
    result = run("check", write(tmp_path, "m.yaml", value))
    assert result.exit_code == 0
    assert "warning: " in result.output
    assert "missing: model.revision: not found" in result.output
    assert result.output.endswith("1 not fully pinned (cannot be locked or run)\n")


def test_check_error_names_file_and_line_and_exits_2(tmp_path: Path) -> None:
    path = write(tmp_path, "m.yaml", changed(CPU, {"engine.enforce_eager": "no"}))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "enforce_eager" in text)
    result = run("check", "-q", path)
    assert result.exit_code == 2
    assert f"error: {path}:{line}: engine.enforce_eager: must be true or false" in result.output
    assert "with errors" in result.output


def test_check_json(tmp_path: Path) -> None:
    result = run("check", "--json", write(tmp_path, "m.yaml", "extends: m.yaml\n"))
    assert result.exit_code == 2
    [entry] = json.loads(result.output)
    assert "circle" in entry["errors"][0]


def test_show_prints_what_loads_again(tmp_path: Path) -> None:
    result = run("show", ROOT / "manifests/cpu-kv-fp8.yaml")
    assert result.exit_code == 0
    assert "extends" not in result.output
    assert "kv_cache_dtype: fp8_e4m3" in result.output
    shown = json.loads(run("show", "--json", ROOT / "manifests/cpu-kv-fp8.yaml").output)
    assert shown["engine"]["max_num_batched_tokens"] == 2048


def test_show_raises_the_error_that_main_prints(tmp_path: Path) -> None:
    result = run("show", tmp_path / "none.yaml")
    assert isinstance(result.exception, InvalidInput)
    assert result.exception.exit_code == 2


def test_diff_of_manifests_and_locks(tmp_path: Path) -> None:
    result = run("diff", ROOT / "manifests/cpu-bf16.yaml", ROOT / "manifests/cpu-kv-fp8.yaml")
    assert result.output == "factor: kv_cache_dtype: bfloat16 -> fp8_e4m3\none factor: kv_cache_dtype\n"
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_bytes(lock(tmp_path).to_bytes())
    b.write_bytes(lock(tmp_path, engine__max_num_batched_tokens=512, engine__seed=1).to_bytes())
    value = json.loads(run("diff", "--json", a, b).output)
    assert [factor["name"] for factor in value["factors"]] == ["chunk_size", "seed"]
    assert value["causal_claim"] is False


def test_diff_of_a_lock_that_is_absent(tmp_path: Path) -> None:
    assert isinstance(run("diff", tmp_path / "a.json", tmp_path / "b.json").exception, InvalidInput)


def test_lock_refuses_missing_facts(tmp_path: Path) -> None:
    out = tmp_path / "lock.json"
    result = run("lock", ROOT / "manifests/rtx-pro-6000/finetune-aeon.yaml", "--out", out)
    assert isinstance(result.exception, SuiteError)
    assert result.exception.exit_code == 2
    assert "model.revision" in str(result.exception)
    assert not out.exists()


def test_schema_is_the_committed_one() -> None:
    assert run("schema").output == (ROOT / "docs/manifest.schema.json").read_text()


@pytest.mark.parametrize("command", ["check", "show", "lock", "diff", "schema"])
def test_help(command: str) -> None:
    assert run(command, "--help").exit_code == 0
