import shutil

from suite.compare.entries import load_entries
from suite.compare.kernel_change import verdicts
from tests.compare.world import member, one_per_turn


def outcome(paths):
    entries = load_entries(paths).entries
    return {entry.label: verdict for entry, verdict in zip(entries, verdicts(entries), strict=True)}


def test_only_the_paired_test_says_worse(table):
    found = outcome([table.results])
    assert found["fp8-kv"].outcome == "worse"
    assert found["fp8-kv"].member == "chunk-512"
    assert found["fp8-kv"].p_holm < 0.001
    # Five flips are more than the band's three, and no difference is shown.
    assert found["int8-kv"].outcome == "no difference shown"
    assert found["int8-kv"].member_flips == 3
    assert found["half-kv"].outcome == "no difference shown"
    assert found["chunk-512"].outcome == "band member"


def test_the_members_are_found_beside_a_bundle_that_names_them(table):
    found = outcome(list(table.results.glob("fp8-kv/*")))
    assert found["fp8-kv"].outcome == "worse"


def test_the_largest_member_is_the_measure(world):
    small = world.bundle("small", one_per_turn([1]), role="band", environment={"OMP_NUM_THREADS": "2"})
    large = world.bundle("large", one_per_turn(range(12)), role="band")
    candidate = world.bundle("a", one_per_turn(range(14)), band=(member(small), member(large)))
    found = outcome([candidate])["a"]
    assert (found.member, found.member_flips, found.outcome) == ("large", 12, "no difference shown")
    # Without the largest one's ledger nothing is said, even with a smaller one at hand.
    shutil.rmtree(large)
    assert outcome([candidate])["a"].outcome == "no ledger"
    assert outcome([candidate, small])["a"].outcome == "no ledger"


def test_without_a_band_nothing_is_said(world):
    candidate = world.bundle("a", one_per_turn(range(20)))
    assert outcome([candidate])["a"].outcome == "not measured"


def test_a_member_of_another_reference_does_not_count(world):
    large = world.bundle("large", one_per_turn(range(12)), role="band")
    named = member(large)
    shutil.rmtree(large)
    moved = world.rows() * 2
    elsewhere = world.bundle("large", one_per_turn(range(12)), role="band", reference=moved)
    elsewhere.rename(large)
    # The same place now holds a bundle of other rows.
    candidate = world.bundle("a", one_per_turn(range(20)), band=(named,))
    assert outcome([candidate])["a"].outcome == "no ledger"
