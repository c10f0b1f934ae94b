import hashlib

import pytest

from suite.agent.checkpoint import require_files
from suite.agent.events import AgentFailure


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_files_that_are_those_of_the_lock_pass_and_others_are_not_looked_at(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"weights" * 1_000_000)
    (tmp_path / "readme").write_bytes(b"changed")
    require_files(str(tmp_path), {"a.safetensors": sha256(b"weights" * 1_000_000)})
    require_files(str(tmp_path), {})


@pytest.mark.parametrize(
    ("content", "message"), [(b"other", "is not the file that the lock pins"), (None, "is absent")]
)
def test_a_changed_or_absent_file_stops_the_engine_before_it_starts(tmp_path, content, message):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(AgentFailure, match=message) as failure:
        require_files(str(tmp_path), {"config.json": sha256(b"{}")})
    assert failure.value.kind == "altered"


def test_all_that_are_wrong_are_counted(tmp_path):
    with pytest.raises(AgentFailure, match="a of the checkpoint is absent or cannot be read, and 2 more"):
        require_files(str(tmp_path), dict.fromkeys(("a", "b", "c"), "0" * 64))
