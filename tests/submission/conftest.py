import pytest

from tests.results.repository import Repository


@pytest.fixture
def repository(tmp_path):
    return Repository(root=tmp_path)
