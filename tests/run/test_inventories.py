"""The inventory of an interpreter or image is taken once a run, and kept beside each stack."""

from types import SimpleNamespace

import pytest

from suite.agent.inventory import collect_inventory, inventory_bytes
from suite.observer import SilentObserver
from suite.run.captures import Store
from suite.run.inventory import Inventories
from tests.sbom.roots import make_root


class Runtime:
    """Writes an inventory whenever it is asked."""

    def __init__(self, identity, root):
        self.identity = identity
        self.root = root
        self.calls = 0

    def call(self, call, observer):
        self.calls += 1
        out = call.folders["out"].host
        out.mkdir(parents=True, exist_ok=True)
        (out / "inventory.json").write_bytes(inventory_bytes(collect_inventory(self.root)))


@pytest.fixture
def store(tmp_path):
    return Store(home=tmp_path)


@pytest.fixture
def runtime(tmp_path):
    root = make_root(tmp_path / "root")
    return lambda identity: Runtime(identity, root)


def stack(digest, runtime):
    return SimpleNamespace(
        lock=SimpleNamespace(capture_digest=digest),
        manifest=SimpleNamespace(runtime=SimpleNamespace(kind="process")),
        runtime=runtime,
    )


def test_stacks_of_one_interpreter_share_it_and_each_keeps_its_own(store, runtime):
    inventories = Inventories(store=store)
    one, two, other = runtime("python"), runtime("python"), runtime("another")
    found = [inventories.sbom(stack(n, r), SilentObserver()) for n, r in (("a", one), ("b", two), ("c", other))]
    assert found[0] == found[1]
    assert (one.calls, two.calls, other.calls) == (1, 0, 1)
    assert sorted(p.parent.parent.name for p in store.captures.glob("*/inventory/inventory.json")) == ["a", "b", "c"]


def test_an_earlier_runs_inventory_stays_its_stacks_and_nobody_elses(store, runtime):
    first = runtime("python")
    Inventories(store=store).sbom(stack("a", first), SilentObserver())
    # In between the interpreter may have been given other packages.
    again, fresh = runtime("python"), runtime("python")
    later = Inventories(store=store)
    later.sbom(stack("a", again), SilentObserver())
    later.sbom(stack("b", fresh), SilentObserver())
    assert (again.calls, fresh.calls) == (0, 1)
