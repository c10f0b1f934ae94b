import json

import pytest
from click.testing import CliRunner

from suite.cli.gate import gate
from suite.errors import InvalidInput
from tests.compare.world import CompareWorld, one_per_turn


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    world = CompareWorld(root=tmp_path_factory.mktemp("gate"), turns=24)
    return {
        "old": world.bundle("fp8-kv", one_per_turn(range(3))),
        # The same manifest after an image bump: same name, more flips.
        "bumped": world.bundle("fp8-kv", one_per_turn(range(20), place=2), environment={"OMP_NUM_THREADS": "2"}),
    }


def run(*arguments):
    return CliRunner().invoke(gate, [str(argument) for argument in arguments], catch_exceptions=False)


def test_a_worse_stack_gives_exit_code_1_and_every_verdict(folders):
    done = run(folders["old"], folders["bumped"], "--max-confident", 5, "--max-flips", 30)
    assert done.exit_code == 1
    assert done.output.startswith("Scope: 191 probes")
    assert "FAIL  confident: 20 confident flips of 191" in done.output
    assert "pass  flips: 20 flips of 191" in done.output
    assert "no-worse: not asked for, so not tested" in done.output
    assert "is worse than allowed: keep fp8-kv 2026-03-04T00:01:00Z" in done.output


def test_without_rules_the_paired_test_decides(folders):
    assert run(folders["old"], folders["bumped"]).exit_code == 1
    done = run(folders["bumped"], folders["old"])
    assert done.exit_code == 0
    assert "pass  no-worse" in done.output
    assert "not tested" not in done.output
    same = run(folders["old"], folders["old"])
    assert same.exit_code == 0
    assert "(p 1)" in same.output


def test_json_holds_each_verdict(folders):
    done = run(folders["old"], folders["bumped"], "--max-confident", 5, "--no-worse", "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 1
    assert value["passed"] is False
    assert [(rule["rule"], rule["passed"]) for rule in value["rules"]] == [("confident", False), ("no-worse", False)]


def test_a_bundle_and_a_manifest_are_no_pair(folders, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text("schema_version: 1\n")
    with pytest.raises(InvalidInput, match="one is a folder and the other a file"):
        run(folders["old"], manifest)


def test_a_folder_of_many_bundles_is_no_side(folders, tmp_path):
    world = CompareWorld(root=tmp_path, turns=24)
    world.bundle("a")
    world.bundle("b", kv_cache_dtype="float16")
    with pytest.raises(InvalidInput, match="3 bundles"):
        run(folders["old"], world.results)
