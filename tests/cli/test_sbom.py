from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from suite.cli.sbom import sbom
from suite.errors import VerificationFailed
from suite.sbom.cyclonedx import check_cyclonedx
from tests.sbom.roots import add_distribution, make_root, put


@pytest.fixture
def root(tmp_path):
    return make_root(tmp_path / "root")


def run(*arguments):
    result = CliRunner().invoke(sbom, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_collect_writes_a_valid_file_and_says_the_counts(tmp_path, root):
    put(root, "var/lib/dpkg/status.d/nameless", "Version: 1\n")
    result = run("collect", "--root", root, "--out", tmp_path / "a.json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 operating_system, 2 dpkg, 1 python, 1 cuda_library, 1 executable" in result.stderr
    assert "finding: no_name: var/lib/dpkg/status.d/nameless" in result.stderr
    check_cyclonedx((tmp_path / "a.json").read_bytes(), where="a.json")


def test_an_inventory_converts_to_what_collecting_gives(tmp_path, root):
    run("collect", "--root", root, "--format", "json", "--out", tmp_path / "inventory.json")
    for style in ("cyclonedx", "spdx", "json"):
        converted = run("collect", "--inventory", tmp_path / "inventory.json", "--format", style)
        assert converted.stdout_bytes == run("collect", "--root", root, "--format", style).stdout_bytes


def test_diff_exits_0_unless_equality_is_required(tmp_path, root):
    run("collect", "--root", root, "--out", tmp_path / "a.json")
    add_distribution(root, "more", "1")
    run("collect", "--root", root, "--format", "spdx", "--out", tmp_path / "b.json")
    result = run("diff", tmp_path / "a.json", tmp_path / "b.json")
    assert result.exit_code == 0
    assert result.stdout == "+ python more 1\n1 package differs (1 added)\n"
    data = json.loads(run("diff", tmp_path / "a.json", tmp_path / "b.json", "--json").stdout)
    assert data["counts"] == {"added": 1, "removed": 0, "changed": 0}
    assert run("diff", tmp_path / "a.json", tmp_path / "a.json", "--require-equal").exit_code == 0
    with pytest.raises(VerificationFailed, match="1 package differs"):
        run("diff", tmp_path / "b.json", tmp_path / "a.json", "--require-equal")
