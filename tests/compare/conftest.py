import pytest

from tests.compare.world import CompareWorld, member, one_per_turn


@pytest.fixture
def world(tmp_path):
    return CompareWorld(root=tmp_path, turns=24)


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """One cohort: a band member, a candidate near it, one far from it, and one without flips."""
    world = CompareWorld(root=tmp_path_factory.mktemp("table"), turns=24)
    band = (member(world.bundle("chunk-512", one_per_turn(range(3)), role="band")),)
    far = one_per_turn(range(20)) + one_per_turn(range(4), place=2)
    world.bundle("fp8-kv", far, band=band, noise=0.1)
    world.bundle("int8-kv", one_per_turn(range(5)), kv_cache_dtype="int8_per_token_head", band=band, noise=0.05)
    world.bundle("half-kv", (), kv_cache_dtype="float16", band=band)
    return world
