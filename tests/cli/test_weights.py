import json

import numpy as np
from click.testing import CliRunner
from safetensors.numpy import save_file

from suite.cli.main import cli


def run(*arguments):
    result = CliRunner().invoke(cli, ["weights", "diff", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_two_files_are_compared_by_kind_of_tensor(tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"model.w": np.ones(3), "visual.x": np.ones(2), "mtp.fc": np.ones(2)}, a)
    save_file({"model.w": np.zeros(3), "visual.x": np.ones(2), "mtp.fc": np.ones(2)}, b)
    lines = run(a, b, "--names").splitlines()
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["language", "0", "of", "1"],
        ["vision", "1", "of", "1"],
        ["MTP", "1", "of", "1"],
    ]
    assert lines[4] == "other bytes: model.w"
    value = json.loads(run(a, b, "--json"))
    assert value["groups"][0]["changed"] == ["model.w"]
    assert value["a"]["visual.x"] == value["b"]["visual.x"]
