"""Bundles that git does not know: shown to the person who measured them, and left out of what is published."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from suite.bundle.read import open_bundle
from suite.cli.main import cli
from suite.errors import InvalidInput
from tests.compare.world import one_per_turn
from tests.results.repository import Repository
from tests.site.community import submitted_privately
from tests.site.world import GPU, MODEL, built, table_of_bundles


@pytest.fixture
def checkout(tmp_path):
    """A checkout with four published bundles and, unknown to git, one of a session just submitted as private."""
    world = table_of_bundles(tmp_path, turns=12)
    repository = Repository(root=tmp_path)
    repository.commit(new=True)
    own = open_bundle(
        world.bundle("tiny-secret", one_per_turn(range(4)), kv_cache_dtype="fp8_e5m2", hardware=GPU, model=MODEL)
    )
    submitted_privately(repository, own)
    return repository


def shown(out):
    index = json.loads((out / "index.json").read_text(encoding="utf-8"))
    return sorted(one["bundle_id"].partition("/")[0] for one in index["bundles"])


PUBLIC = ["tiny-chunk-512", "tiny-kv-fp16", "tiny-kv-fp8", "tiny-kv-int8"]


def test_a_person_sees_their_own_results_and_publishes_those_that_git_knows(checkout, tmp_path):
    out = tmp_path / "out"
    (own,) = (checkout.results / "tiny-secret").iterdir()
    secret = f"results/tiny-secret/{own.name}"
    report = built(checkout.results, out)
    assert report.refused == ()
    assert report.num_unknown == 1
    assert shown(out) == sorted([*PUBLIC, "tiny-secret"])
    assert (out / secret / "ledger.parquet").is_file()
    # Into the same folder: what an earlier build wrote of it goes too.
    report = built(checkout.results, out, published_only=True)
    assert (report.num_unknown, report.num_bundles) == (0, 4)
    assert shown(out) == PUBLIC
    assert not (out / secret).exists()
    assert not any(own.name.encode() in path.read_bytes() for path in out.rglob("*") if path.is_file())
    (private,) = json.loads((out / "index.json").read_text(encoding="utf-8"))["private"]
    assert private["bundle_id"].startswith("tiny-secret/")
    checkout.commit()
    report = built(checkout.results, out, published_only=True)
    assert (report.num_unknown, report.num_bundles) == (0, 5)


def test_the_command_says_how_many_git_does_not_know(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    arguments = ["site", "build", "--out", "public", "--jobs", "1"]
    told = CliRunner().invoke(cli, arguments, catch_exceptions=False).output.splitlines()
    assert told[-1] == (
        "1 bundle that git does not know is shown, for your own eyes; "
        "before you publish, --published leaves out what git does not know"
    )
    done = CliRunner().invoke(cli, [*arguments, "--published"], catch_exceptions=False)
    assert "git does not know" not in done.output
    assert "4 bundles, " in done.output


def test_a_submission_stands_for_the_bundle_that_it_was_made_of(tmp_path):
    repository = Repository(root=tmp_path)
    repository.bundle("published")
    repository.commit(new=True)
    own = repository.bundle("mine")
    staged = tmp_path / "staged"
    shutil.copytree(own.folder, staged / "bundle" / own.bundle_id)
    repository._submitted(staged, own, "me", {"kind": "full", "bundle_id": own.bundle_id})
    for published_only in (False, True):
        report = built(repository.results, tmp_path / "out", published_only=published_only)
        assert (report.num_unknown, report.num_bundles) == (0, 2)


def test_without_git_all_are_shown_and_nothing_can_be_called_published(tmp_path):
    results = table_of_bundles(tmp_path, turns=12).results
    assert built(results, tmp_path / "out").num_unknown == 0
    with pytest.raises(InvalidInput, match="not in a checkout of git"):
        built(results, tmp_path / "out", published_only=True)
