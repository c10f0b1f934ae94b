from suite.site.measure import measure
from suite.site.scan import scan
from suite.site.verdict import verdict_of
from tests.compare.world import CompareWorld, one_per_turn
from tests.site.world import GPU, MODEL, table_of_bundles


class Nothing:
    """Remembers nothing."""

    def text(self, key):
        return None

    def keep_text(self, key, text):
        pass


def verdict(results):
    scanned = scan([results], known_groups={}, kept=Nothing())
    (cohort,) = (measured := measure(scanned.found)).cohorts
    bundles = {bundle.bundle_id: bundle for bundle in measured.bundles}
    return verdict_of(cohort, bundles, {bundle.name: bundle.name for bundle in bundles.values()})


def test_near_and_far_are_told_apart(tmp_path):
    found = verdict(table_of_bundles(tmp_path).results)
    assert found.line == (
        "tiny-kv-fp16 and tiny-kv-int8 show no difference from a change of kernel. "
        "One other flips more than any change of kernel does."
    )
    assert (
        "tiny-kv-int8: 5 of 191 flips (2.6 %), none confident; the band’s largest member has 3, p = " in found.evidence
    )
    assert "worse: 24 (tiny-kv-fp8) of 191" in found.evidence
    assert found.pick is not None
    assert found.pick.name == "tiny-kv-fp16"


def test_without_a_band_nothing_is_called_worse(tmp_path):
    world = CompareWorld(root=tmp_path, turns=24)
    world.bundle("fp8", one_per_turn(range(20)), hardware=GPU, model=MODEL)
    found = verdict(world.results)
    assert found.line.startswith("Counts only: no numerical band was measured against this reference")
    assert found.pick is None


def test_too_few_turns_give_counts_only(tmp_path):
    world = CompareWorld(root=tmp_path, turns=6)
    world.bundle("fp8", one_per_turn(range(5)), hardware=GPU, model=MODEL)
    assert verdict(world.results).line == "Counts only: 6 turns, fewer than 10."


def test_valid_stacks_alone_are_not_judged(tmp_path):
    world = CompareWorld(root=tmp_path, turns=12)
    world.bundle("chunk", one_per_turn(range(2)), role="band", hardware=GPU, model=MODEL)
    assert "no candidate to judge" in verdict(world.results).line
