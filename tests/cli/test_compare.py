import csv
import io
import json

import pytest
from click.testing import CliRunner

from suite.cli.compare import SORTS, compare
from suite.compare.metrics import METRICS
from suite.errors import InvalidInput
from tests.compare.conftest import table  # noqa: F401 - a fixture
from tests.compare.world import CompareWorld, one_per_turn


def run(*arguments):
    return CliRunner().invoke(compare, [str(argument) for argument in arguments], catch_exceptions=False).output


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_the_choices_of_sort_are_the_metrics():
    assert tuple(METRICS) == SORTS


def test_scope_comes_first_then_what_must_not_be_said(table):  # noqa: F811
    first, second = run(table.results).split("\n\n")[:2]
    assert first.startswith("Scope: 191 probes in 24 turns of one recorded session (many-turns, 192 tokens), prefill")
    assert "reference bf16 (rows " in first
    assert "self-reported, not verified here" in first
    assert "Off-policy: at 0 of 191 probes" in first
    assert second.startswith("Must not be quoted for other sessions")
    assert "BF16 is a reference, not the truth" in second


def test_a_row_has_counts_interval_classes_floor_and_band(table):  # noqa: F811
    text = run(table.results)
    assert "flips of 191 [95 %]" in text
    row = lines_of(text, "4 ")[0]
    for part in ("fp8-kv", "kv_cache_dtype", "24 (12.6 %) [", "0, 0", "worse (p < 0.001)"):
        assert part in row
    assert "chunk-512 [band]" in text
    assert "no difference shown (p 0.5)" in text
    assert "Numerical band (equally valid BF16 stacks): chunk-512 3 of 191." in text
    assert "No winner by flips" in text
    assert "seed 20260301" in text
    assert "n < 10,000" in text
    assert "rounding KL" in text
    # One page: no line of a table is wider than a wide terminal.
    assert max(len(line) for line in text.splitlines() if line.startswith(("1 ", "4 ", "fp8"))) <= 170


def test_github_tables_have_as_many_cells_in_every_row(table):  # noqa: F811
    rows = lines_of(run(table.results, "--format", "github", "--by", "span"), "|")
    cells = [row.replace("\\|", "").count("|") for row in rows]
    assert set(cells[:6]) == {11}
    assert set(cells[6:12]) == {10}
    assert set(cells[12:]) == {7}


@pytest.mark.parametrize(("by", "keys"), [("window", 1), ("range", 1), ("turn", 24), ("span", 2)])
def test_groups_add_up_to_the_row(table, by, keys):  # noqa: F811
    value = json.loads(run(table.results, "--format", "json", "--by", by))
    assert len(value["groups"]) == keys
    assert sum(group["n"] for group in value["groups"]) == 191
    for place, row in enumerate(value["rows"]):
        assert sum(group["rows"][place]["flips"] for group in value["groups"]) == row["headlines"]["flips"]


def test_json_holds_what_the_table_says(table):  # noqa: F811
    value = json.loads(run(table.results, "--format", "json"))
    band = {row["bundle"]: row["headlines"]["flips"] for row in value["rows"] if row["role"] == "band"}
    assert {member["bundle"]: member["flips"] for member in value["numerical_band"]} == band != {}
    assert value["winner"] is None
    assert [row["name"] for row in value["rows"]] == ["half-kv", "chunk-512", "int8-kv", "fp8-kv"]
    assert [row["rank"] for row in value["rows"]] == [1, 1, 1, 4]
    last = value["rows"][-1]
    low, high = last["intervals"]["flips"]
    assert low < last["headlines"]["flips"] == 24 < high
    assert last["kernel_change"]["outcome"] == "worse"
    assert last["causal_claim"] is True
    assert len(value["pairs"]) == 6
    assert value["rows"][0]["intervals"]["flips"] is None
    assert value["cohort"]["n"] == 191


def test_csv_names_the_cohort_in_every_line(table):  # noqa: F811
    rows = list(csv.DictReader(io.StringIO(run(table.results, "--format", "csv", "--sort", "kl"))))
    assert [row["stack"] for row in rows] == ["half-kv", "chunk-512", "int8-kv", "fp8-kv"]
    assert {row["reference_rows_sha256"] for row in rows} != {""}
    assert rows[-1]["flips"] == "24"
    assert float(rows[-1]["flips_low"]) < 24 < float(rows[-1]["flips_high"])
    grouped = list(csv.DictReader(io.StringIO(run(table.results, "--format", "csv", "--by", "span"))))
    assert len(grouped) == 8
    assert sum(int(row["flips"]) for row in grouped if row["stack"] == "fp8-kv") == 24


def test_several_factors_make_no_causal_claim_and_none_is_the_same_stack(world):
    world.bundle("two", kv_cache_dtype="float16", environment={"OMP_NUM_THREADS": "2"})
    value = run(world.results)
    assert "no causal claim: " in value
    assert "kv_cache_dtype" in value


@pytest.fixture
def world(tmp_path):
    return CompareWorld(root=tmp_path, turns=24)


def test_under_ten_turns_there_are_counts_only(tmp_path):
    world = CompareWorld(root=tmp_path, turns=6)
    world.bundle("a", one_per_turn(range(6)))
    world.bundle("b", kv_cache_dtype="float16")
    text = run(world.results)
    assert "6 (12.8 %)  " in text
    assert "[" not in "".join(lines_of(text, "- "))
    assert "No intervals: 6 turns, fewer than 10: counts only." in text
    assert "No ranking: 6 turns" in text


def test_windows_are_drawn_where_there_are_several(tmp_path):
    world = CompareWorld(root=tmp_path, turns=1010)
    world.bundle("a", one_per_turn(range(1005)))
    text = run(world.results)
    assert "per window (block: 1000)" in text
    assert "█▁" in text


def test_refusals_reach_the_user(tmp_path):
    with pytest.raises(InvalidInput, match="neither a bundle nor a folder of results"):
        run(tmp_path)
