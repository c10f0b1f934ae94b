import json
import shlex
import shutil
from pathlib import Path

from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, VerificationFailed
from tests.manifest.samples import CPU, CUDA, ROOT, write

RESULTS = ROOT / "results"


def run(*arguments, fails=None):
    result = CliRunner().invoke(cli, ["launch", *map(str, arguments)])
    if fails is not None:
        assert isinstance(result.exception, fails), result.output
        return result
    assert result.exit_code == 0, result.output
    return result.stdout


def bundle(name):
    return next((RESULTS / name).iterdir())


def test_a_manifest_is_launched_with_its_differences(tmp_path):
    path = write(tmp_path, "m.yaml", CUDA | {"serve": {"max_num_seqs": 8}})
    text = run(path, "--port", "9000", "--device", "2")
    assert text.startswith("docker run \\\n")
    assert "--gpus device=2" in text
    assert "127.0.0.1:9000:8000" in text
    assert "max_num_seqs" in text.split("launched is not measured")[1]
    assert run(path, "--plain").startswith("env CUDA_DEVICE_ORDER=PCI_BUS_ID vllm serve owner/name")


def test_json_holds_the_same_list_as_the_text(tmp_path):
    value = json.loads(run(write(tmp_path, "m.yaml", CUDA), "--json"))
    assert shlex.split(value["shell"]["docker"]) == value["docker"]
    assert value["differences"] == []


def test_a_bundle_is_launched_and_its_grid_is_offered():
    text = run(bundle("h200-smollm2-kv-int8"), "--grid", RESULTS, "--model", ROOT / "docs")
    assert f"vllm serve {ROOT / 'docs'}" in text
    cells = text.split("pick one")[1]
    assert "* TRITON_ATTN, int8_per_token_head h200-smollm2-kv-int8" in cells
    assert "FLASH_ATTN 3, fp8_e4m3" in cells
    assert "w8a8" not in cells
    assert "chunk" not in cells


def test_a_manifest_is_in_no_grid(tmp_path):
    run(write(tmp_path, "m.yaml", CUDA), "--grid", RESULTS, fails=InvalidInput)


def test_show_ends_in_the_launch_command():
    result = CliRunner().invoke(cli, ["show", str(bundle("h200-smollm2-flex"))])
    assert result.exit_code == 0, result.output
    assert "--attention-backend FLEX_ATTENTION" in result.output
    assert "launched as measured: no setting differs" in result.output


def test_flags_are_checked_against_the_stacks_own_help(tmp_path, monkeypatch):
    path = write(tmp_path, "m.yaml", CPU | {"serve": {"tool_call_parser": "hermes"}})
    words = "\n".join(f"  --{name} X" for name in [*map("a{}".format, range(60)), "max-model-len", "dtype"])
    monkeypatch.setattr("suite.stack.flags.help_of", lambda runtime, observer: words)
    monkeypatch.setattr("suite.run.asked.find_interpreter", lambda *_: tmp_path)
    result = CliRunner().invoke(cli, ["launch", str(path), "--check"])
    assert result.exit_code == 2
    assert "this vLLM has no --tool-call-parser" in result.output
    assert "no --dtype" not in result.output


def test_a_bundle_whose_lock_was_changed_is_not_launched(tmp_path):
    folder = Path(shutil.copytree(bundle("h200-smollm2-flex"), tmp_path / "changed"))
    lock = folder / "lock.json"
    lock.write_text(lock.read_text().replace('"max_num_seqs": 1', '"max_num_seqs": 9'))
    result = CliRunner().invoke(cli, ["launch", str(folder)])
    assert isinstance(result.exception, VerificationFailed)
    assert "lock.json: not the file that the record names" in str(result.exception)
