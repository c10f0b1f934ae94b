import pytest

from tests.intake.here import look
from tests.results.repository import Repository


@pytest.fixture
def repository(tmp_path):
    return Repository(root=tmp_path)


@pytest.fixture(autouse=True)
def intake_here(monkeypatch):
    """What is written is looked at in this process; tests/intake and tests/cli start the one that users have."""
    monkeypatch.setattr("suite.submission.write.take_in", look)
