import pytest

from tests.bundle.world import World


@pytest.fixture
def world(tmp_path):
    return World(root=tmp_path)
