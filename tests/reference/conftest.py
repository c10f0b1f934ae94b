import pytest

from tests.reference.world import packed


@pytest.fixture
def pack(tmp_path):
    return packed(tmp_path)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"
