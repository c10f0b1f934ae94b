"""In which order a run starts, scores and writes, with captures and bundles that are made up."""

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from suite.capture.store import open_capture
from suite.errors import RunFailed
from suite.observer import SilentObserver
from suite.run import execute as subject
from suite.run.bundling import Bundling, Measured, Scored
from suite.run.captures import Store
from suite.run.execute import RunOptions, execute
from suite.run.reference import Reference
from suite.score.floor import floor_of, repeat_floor
from tests.capture.synthetic import bf16, write_capture

REFERENCE = Path("reference.yaml")


class World:
    """A reference and stacks against it; what happens is kept in order."""

    def __init__(self, monkeypatch, tmp_path):
        self.events = []
        self.sets = {}
        """What happened -> what it sets."""
        self.fail = {}
        self.hold = {}
        """Label and number of a start -> it ends only once this is set."""
        self.home = tmp_path
        rows = bf16(np.array([[0.0, 1.0], [1.0, 0.0]]))
        self.capture = open_capture(write_capture(tmp_path / "capture", rows, [0, 1, 0]))
        monkeypatch.setattr(subject, "capture_start", self._capture)
        monkeypatch.setattr(subject, "_score", self._score)
        monkeypatch.setattr(Bundling, "measured", lambda _, scored, __: self._measured(scored))

    def happened(self, event):
        self.events.append(event)
        if event in self.sets:
            self.sets[event].set()

    def _capture(self, stack, start, *, sanity_max_nll, **_):
        self.happened(f"start {stack.label} {start}")
        if (event := self.hold.get((stack.label, start))) is not None:
            assert event.wait(30)
        if stack.label in self.fail:
            raise RunFailed(self.fail[stack.label], where=stack.label)
        self.happened(f"end {stack.label} {start} limit {sanity_max_nll}")
        return self.capture

    def _score(self, stack, captures, *_):
        captures[0].result()
        self.happened(f"score {stack.label}")
        return Scored(stack=stack, captures=captures, ledger=None)

    def _measured(self, scored):
        for future in scored.captures:
            future.result()
        self.happened(f"bundle {scored.stack.label}")
        floor = floor_of(repeat_floor([self.capture]))
        return Measured(
            name=scored.stack.label, role=scored.stack.manifest.role, bundle=None, floor=floor, lock=scored.stack.lock
        )

    def stack(self, label, role="candidate", repeats=1):
        file = None if role == "reference" else REFERENCE
        manifest = SimpleNamespace(
            role=role, reference_file=file, arbiter_file=None, compared_files=() if file is None else (file,)
        )
        lock = SimpleNamespace(capture_digest=label, repeats=repeats, replay=None)
        return SimpleNamespace(label=label, manifest=manifest, lock=lock)

    def run(self, *stacks, jobs=2):
        own = self.stack("reference", role="reference")
        reference = Reference(file=REFERENCE, lock=own.lock, stack=own, capture=None)
        return execute(
            stacks,
            {REFERENCE: reference},
            store=Store(home=self.home),
            root=self.home,
            results=self.home / "results",
            options=RunOptions(jobs=jobs),
            observer_for=lambda _: SilentObserver(),
            cancelled=threading.Event(),
        )

    def order(self, word):
        return [event.removeprefix(f"{word} ") for event in self.events if event.startswith(f"{word} ")]


@pytest.fixture
def world(monkeypatch, tmp_path):
    return World(monkeypatch, tmp_path)


def test_a_candidate_starts_beside_its_reference(world):
    # The reference ends only after the candidate has, whose start therefore has no limit of its own yet.
    world.hold["reference", 0] = world.sets["end one 0 limit None"] = threading.Event()
    report = world.run(world.stack("one"))
    assert [m.name for m in report.measured] == ["one"]
    assert world.order("end")[0] == "one 0 limit None"


def test_what_starts_after_the_reference_is_held_to_its_sanity(world):
    world.run(world.stack("one", repeats=2), jobs=1)
    limit = subject.sanity_limit(world.capture)
    assert limit is not None
    assert world.order("end") == ["reference 0 limit None", f"one 0 limit {limit}", f"one 1 limit {limit}"]


def test_starts_are_made_in_the_order_in_which_stacks_are_named(world):
    world.run(world.stack("b", repeats=2), world.stack("a", role="band"), jobs=1)
    assert world.order("start") == ["reference 0", "b 0", "b 1", "a 0"]


def test_a_stack_is_scored_when_its_first_start_ends_and_bundles_of_the_band_come_first(world):
    world.hold["band", 0] = world.sets["score slow"] = threading.Event()
    world.hold["slow", 1] = world.sets["score band"] = threading.Event()
    world.run(world.stack("slow", repeats=2), world.stack("band", role="band"), jobs=3)
    assert world.order("score") == ["slow", "band"]
    assert world.order("bundle") == ["band", "slow"]


def test_a_band_that_fails_holds_nobody_up(world):
    world.fail["band"] = "broken"
    report = world.run(world.stack("band", role="band"), world.stack("one"))
    assert [m.name for m in report.measured] == ["one"]
    assert report.failed["band"].message == "broken"


def test_a_further_start_that_fails_is_the_stacks_own_failure(world, monkeypatch):
    own = world._capture

    def capture(stack, start, **rest):
        if (stack.label, start) == ("one", 1):
            raise RunFailed("the second start died", where="one")
        return own(stack, start, **rest)

    monkeypatch.setattr(subject, "capture_start", capture)
    report = world.run(world.stack("one", repeats=2), world.stack("two"))
    assert [m.name for m in report.measured] == ["two"]
    assert report.failed["one"].message == "the second start died"


def test_a_start_made_beside_its_reference_is_held_to_its_sanity_afterwards(world):
    def with_nll(value):
        sanity = SimpleNamespace(mean_nll=value, positions=63)
        return SimpleNamespace(index=SimpleNamespace(sanity=sanity))

    reference, stack = with_nll(2.0), world.stack("one")
    limit = subject.sanity_limit(reference)
    subject._require_sane(stack, with_nll(limit), reference)
    subject._require_sane(stack, with_nll(99.0), with_nll(None))
    with pytest.raises(RunFailed, match=rf"mean NLL over the first 63 positions is 9\.200 nats; .* under {limit:.3f}"):
        subject._require_sane(stack, with_nll(9.2), reference)
