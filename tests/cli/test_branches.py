"""`suite branches`: the list, one fork, JSON, and clear errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from suite.bundle.write import write_bundle
from suite.cli.main import cli
from suite.errors import InvalidInput
from tests.bundle.test_branches import parts_with_branches
from tests.bundle.world import World


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(cli, ["branches", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    world = World(root=tmp_path)
    return write_bundle(parts_with_branches(world), results=world.results)


def test_all_forks_are_listed_with_counts(bundle: Path) -> None:
    output = run(bundle)
    assert "other words" in output
    assert [line.split()[0] for line in output.splitlines() if line[:1].isdigit()] == ["7"]


def test_one_fork_stands_with_both_futures_and_the_best_tokens(bundle: Path) -> None:
    output = run(bundle, "--show", 7)
    assert "position 7:" in output
    assert "[-" in output
    assert "{+" in output
    assert "consequence: other words" in output


def test_json_holds_everything(bundle: Path) -> None:
    value = json.loads(run(bundle, "--json"))
    assert [fork["position"] for fork in value["forks"]] == [7]
    assert value["branches"]["used"] == 1
    assert json.loads(run(bundle, "--show", 7, "--json"))["forks"] == value["forks"]


def test_a_position_that_was_not_followed_is_refused(bundle: Path) -> None:
    with pytest.raises(InvalidInput, match="position 2"):
        run(bundle, "--show", 2)


def test_a_bundle_that_follows_nothing_says_how_to(tmp_path: Path) -> None:
    world = World(root=tmp_path)
    with pytest.raises(InvalidInput, match="follows no flips"):
        run(write_bundle(world.parts(), results=world.results))
