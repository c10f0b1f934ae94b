import pytest

from suite.intake.examine import examine
from tests.results.repository import Repository


@pytest.fixture
def repository(tmp_path):
    return Repository(root=tmp_path)


@pytest.fixture(autouse=True)
def intake_here(tmp_path_factory, monkeypatch):
    """Intake looks at what is written in this process: its own process is tested in tests/intake and tests/cli."""

    def look(path, *, results):
        return examine(path, scratch=tmp_path_factory.mktemp("scratch"), results=results)

    monkeypatch.setattr("suite.submission.write.take_in", look)
