from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from suite.cli.evidence import evidence
from suite.errors import InvalidInput
from suite.evidence.chance import escape_chance, escape_table, rows_needed

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "evidence.md"


def test_the_known_example():
    """64 rows miss 28 falsified of 7,114 with 78 % chance."""
    assert round(escape_chance(rows=7114, falsified=28, drawn=64), 2) == 0.78


@pytest.mark.parametrize("rows", [1, 5, 7])
def test_it_is_the_share_of_all_draws_that_miss(rows):
    for falsified in range(rows + 1):
        for drawn in range(rows + 1):
            draws = list(combinations(range(rows), drawn))
            missing = sum(1 for draw in draws if all(row >= falsified for row in draw))
            share = Fraction(missing, len(draws))
            assert escape_chance(rows=rows, falsified=falsified, drawn=drawn) == float(share)


@given(st.integers(1, 10_000), st.data())
def test_it_falls_with_either_count_and_both_are_alike(rows, data):
    falsified, drawn = data.draw(st.integers(0, rows)), data.draw(st.integers(0, rows))
    found = escape_chance(rows=rows, falsified=falsified, drawn=drawn)
    assert 0 <= found <= 1
    assert found == escape_chance(rows=rows, falsified=drawn, drawn=falsified)
    if drawn < rows:
        assert escape_chance(rows=rows, falsified=falsified, drawn=drawn + 1) <= found
    assert (found == 0) or falsified + drawn <= rows


@given(st.integers(1, 3000), st.floats(0, 0.999), st.data())
def test_the_rows_needed_are_the_fewest(rows, chance, data):
    falsified = data.draw(st.integers(1, rows))
    needed = rows_needed(rows=rows, falsified=falsified, chance=chance)
    assert escape_chance(rows=rows, falsified=falsified, drawn=needed) <= chance
    if needed:
        assert escape_chance(rows=rows, falsified=falsified, drawn=needed - 1) > chance


@pytest.mark.parametrize("counts", [{"falsified": 8, "drawn": 1}, {"falsified": 1, "drawn": -1}])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(InvalidInput):
        escape_chance(rows=7, **counts)


@pytest.mark.parametrize(("falsified", "chance"), [(0, 0.1), (8, 0.1), (1, 1.0), (1, -0.1)])
def test_impossible_questions_are_refused(falsified, chance):
    with pytest.raises(InvalidInput):
        rows_needed(rows=7, falsified=falsified, chance=chance)


def test_counts_above_the_rows_are_left_out_of_a_table():
    assert escape_table(5, falsified=(1, 6), drawn=(1, 6)) == [(1, (0.8,))]


def run(*arguments):
    return CliRunner().invoke(evidence, ["chance", *map(str, arguments)])


def test_the_document_shows_the_table_that_the_command_prints():
    table = run().output.split("\n", 1)[1]
    assert table in DOCUMENT.read_text(encoding="utf-8")


def test_one_chance_and_one_need():
    assert run("--falsified", 28, "--drawn", 64).output == "64 of 7,114 rows drawn: 28 falsified escape with 77.6 %\n"
    assert run("--falsified", 28, "--at-most", 0.01).output.startswith("draw 1,077 of 7,114 rows")
    assert run("--at-most", 0.01).exit_code == 2
    assert '"escape_chance": 0.8' in run("--rows", 5, "--falsified", 1, "--drawn", 1, "--json").output
    assert '"drawn": 1077' in run("--falsified", 28, "--at-most", 0.01, "--json").output
    assert run("--rows", 10, "--json").exit_code == 0
