from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "tests" / "card" / "cards"


def run(*arguments):
    return CliRunner().invoke(cli, ["card", *map(str, arguments)])


def test_lint_lists_and_ends_with_two_on_errors():
    done = run("lint", CARDS / "count-and-share.md")
    assert done.exit_code == 2
    assert "error: 156 of 7,114 is 2.19 %, not 3.2 % (line 3)" in done.output
    assert done.output.splitlines()[0] == "2 divergence claims"


def test_lint_of_a_complete_card_ends_with_zero():
    done = run("lint", CARDS / "complete-table.md")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith("0 errors")


def test_lint_as_json():
    done = run("lint", CARDS / "requested-only.md", "--json")
    found = json.loads(done.output)
    assert done.exit_code == 2
    assert found["errors"] == sum(f["level"] == "error" for f in found["findings"]) > 0
    assert {"attention_backend", "kv_cache_dtype"} <= set(found["missing"])
    statuses = {
        status: {f["field"] for f in found["fields"] if f["status"] == status.replace("_", " ")}
        for status in ("disclosed", "missing")
    }
    assert {key: set(found[key]) for key in statuses} == statuses
    assert found["claims"][0] == {
        "metric": "kl", "statistic": "mean", "quantile": None, "value": 0.012, "unit": None, "n": 4096, "line": 5
    }  # fmt: skip


def test_lint_of_nothing(tmp_path):
    done = run("lint", tmp_path / "none.md")
    assert isinstance(done.exception, InvalidInput)
    (tmp_path / "plain.md").write_text("# A model\n", encoding="utf-8")
    done = run("lint", tmp_path / "plain.md")
    assert (done.exit_code, done.output) == (0, "no divergence claim: nothing to disclose\n")


def test_block_writes_the_badge_that_it_shows(tmp_path):
    bundle = next((ROOT / "results" / "h200-smollm2-kv-fp8-e4m3").iterdir())
    done = run("block", bundle, "--badge", tmp_path / "flips.svg")
    assert done.exit_code == 0, done.output
    assert "](flips.svg)" in done.output
    assert (tmp_path / "flips.svg").read_bytes().startswith(b"<svg ")


def test_block_of_no_bundle(tmp_path):
    assert isinstance(run("block", tmp_path).exception, InvalidInput)
