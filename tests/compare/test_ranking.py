import pytest

from suite.compare.comparison import compare, winner_text
from suite.compare.metrics import METRICS
from suite.compare.ranking import Pair, shared_ranks
from suite.score.paired import SignFlip
from suite.score.turns import QUANTITIES
from tests.compare.world import CompareWorld, one_per_turn


def pair(lower, higher, *, separated):
    test = SignFlip(difference=1.0, informative_turns=9, p_value=0.5, exact=True)
    return Pair(lower=lower, higher=higher, test=test, p_holm=0.01 if separated else 0.5, kl=test)


def labels(comparison):
    return [entry.label for entry in comparison.rows]


def test_rows_that_are_not_separated_share_a_rank():
    pairs = [pair(0, 1, separated=False), pair(0, 2, separated=True), pair(1, 2, separated=True)]
    assert shared_ranks(3, pairs) == (1, 1, 3)
    assert shared_ranks(3, [pair(a, b, separated=True) for a, b in ((0, 1), (0, 2), (1, 2))]) == (1, 2, 3)


def test_a_chain_of_near_rows_is_not_cut_in_the_middle():
    # The first and the third are separated, but neither from the second.
    pairs = [pair(0, 1, separated=False), pair(0, 2, separated=True), pair(1, 2, separated=False)]
    assert shared_ranks(3, pairs) == (1, 1, 1)


def test_rows_are_sorted_by_the_chosen_metric(table):
    assert labels(compare([table.results])) == ["half-kv", "chunk-512", "int8-kv", "fp8-kv"]
    by_confident = compare([table.results], sort="confident")
    assert labels(by_confident)[-1] == "fp8-kv"
    assert by_confident.ranking.metric.words == "confident flips"


def test_a_winner_is_named_only_where_the_test_separates_it_from_every_other(table):
    four = compare([table.results])
    assert four.ranking.winner is None
    assert winner_text(four).startswith("No winner by flips: no row is separated from every other")
    assert four.ranking.ranks == (1, 1, 1, 4)
    two = compare(sorted(table.results.glob("[fi]*/*")))
    assert two.ranking.winner.label == "int8-kv"
    assert winner_text(two).startswith("int8-kv has fewer flips than every other row")


def test_fewer_flips_by_chance_are_no_win(world):
    # 9 turns flip in one candidate and 6 others in the other: two-sided sign-flip gives p = 0.61.
    world.bundle("a", one_per_turn(range(9)))
    world.bundle("b", one_per_turn(range(9, 15)), kv_cache_dtype="float16")
    comparison = compare([world.results])
    assert labels(comparison) == ["b", "a"]
    assert comparison.ranking.ranks == (1, 1)
    assert comparison.ranking.winner is None
    assert comparison.ranking.pairs[0].test.p_value == pytest.approx(0.607, abs=1e-3)


def test_under_ten_turns_nothing_is_ranked(tmp_path):
    world = CompareWorld(root=tmp_path, turns=8)
    world.bundle("a", one_per_turn(range(8)))
    world.bundle("b", kv_cache_dtype="float16")
    comparison = compare([world.results])
    assert comparison.ranking.ranks is None
    assert winner_text(comparison) == "No ranking: 8 turns, fewer than 10: counts only."


def test_every_metric_is_summed_per_turn(table):
    entry = compare([table.results]).rows[-1]
    for name, metric in METRICS.items():
        assert name == metric.name
        assert metric.quantity in QUANTITIES
    assert METRICS["flips"].value(entry) == entry.headlines.flips
    assert METRICS["confident"].value(entry) == entry.headlines.flips_confident
    assert METRICS["kl"].value(entry) == pytest.approx(entry.headlines.kl_ref_cand.mean, rel=1e-12)
    assert METRICS["tv"].value(entry) == pytest.approx(entry.headlines.total_variation.mean, rel=1e-12)
