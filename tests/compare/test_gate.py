import pytest

from suite.bundle.read import open_bundle
from suite.compare.entries import load_entries, load_entry
from suite.compare.gate import Limits, gate
from suite.errors import InvalidInput
from tests.compare.world import CompareWorld, one_per_turn


@pytest.fixture(scope="module")
def stacks(table):
    return {entry.label: entry for entry in load_entries([table.results]).entries}


def verdict(report):
    return {rule.rule: rule.passed for rule in report.rules}


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        (Limits(confident=4), True),
        (Limits(confident=3), False),
        (Limits(flips=24), True),
        (Limits(flips=23), False),
        (Limits(leaning=0), True),
        (Limits(kl_nats=1.0), True),
        (Limits(kl_nats=0.001), False),
        (Limits(no_worse=True), False),
    ],
)
def test_each_rule_alone(stacks, limits, passed):
    # fp8-kv: 24 flips, 20 of them uncertain and 4 confident.
    report = gate(stacks["int8-kv"], stacks["fp8-kv"], limits)
    assert len(report.rules) == 1
    assert report.passed is passed


def test_one_failed_rule_fails_the_gate_and_all_are_told(stacks):
    report = gate(stacks["int8-kv"], stacks["fp8-kv"], Limits(confident=3, flips=40, kl_nats=1.0, no_worse=True))
    assert verdict(report) == {"confident": False, "flips": True, "kl": True, "no-worse": False}
    assert not report.passed
    details = " ".join(rule.detail for rule in report.rules)
    assert "4 confident flips of 191" in details
    assert "at most 3 allowed; int8-kv has 0" in details
    assert "flips worse (p < 0.001)" in details


def test_more_flips_within_noise_are_not_worse(stacks):
    report = gate(stacks["chunk-512"], stacks["half-kv"], Limits(no_worse=True))
    assert report.passed
    assert "flips no difference shown" in report.rules[0].detail
    assert gate(stacks["half-kv"], stacks["chunk-512"], Limits(no_worse=True)).passed


def test_kl_alone_can_show_a_stack_worse(world):
    a = load_entry(open_bundle(world.bundle("a", noise=0.01)))
    b = load_entry(open_bundle(world.bundle("b", kv_cache_dtype="float16", noise=0.2)))
    assert not gate(a, b, Limits(no_worse=True)).passed
    assert gate(b, a, Limits(no_worse=True)).passed


def test_a_gate_that_cannot_test_does_not_pass(tmp_path):
    world = CompareWorld(root=tmp_path, turns=8)
    a = load_entry(open_bundle(world.bundle("a")))
    b = load_entry(open_bundle(world.bundle("b", one_per_turn(range(8)), kv_cache_dtype="float16")))
    with pytest.raises(InvalidInput, match="cannot be tested: 8 turns"):
        gate(a, b, Limits(no_worse=True))
    assert gate(a, b, Limits(flips=8)).passed


def test_no_rule_and_a_reference_without_a_pair_are_refused(stacks):
    with pytest.raises(InvalidInput, match="no rule"):
        gate(stacks["int8-kv"], stacks["fp8-kv"], Limits())
    with pytest.raises(InvalidInput, match="two candidates of one reference"):
        gate(None, stacks["fp8-kv"], Limits(no_worse=True))
    assert gate(None, stacks["fp8-kv"], Limits(flips=24)).old == "the reference"


def test_stacks_of_two_references_are_refused(world, stacks):
    other = load_entry(open_bundle(world.bundle("b", reference=world.rows() * 2)))
    with pytest.raises(InvalidInput, match="reference rows"):
        gate(stacks["int8-kv"], other, Limits(flips=100))
