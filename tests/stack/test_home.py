from pathlib import Path

import pytest

from suite.errors import MissingPrerequisite
from suite.stack.home import require_writable, require_writable_results, suite_home


def test_chosen_folder() -> None:
    assert suite_home({"SUITE_HOME": "/data/suite", "XDG_CACHE_HOME": "/c"}) == Path("/data/suite")
    assert suite_home({"SUITE_HOME": "~/x"}) == Path.home() / "x"
    assert suite_home({"SUITE_HOME": "relative"}).is_absolute()


def test_cache_folder() -> None:
    assert suite_home({"XDG_CACHE_HOME": "/c"}) == Path("/c/suite")
    assert suite_home({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/suite"
    assert suite_home({"SUITE_HOME": ""}) == Path.home() / ".cache/suite"


@pytest.mark.parametrize(
    ("require", "text"),
    [(require_writable, "state.*\n.*SUITE_HOME"), (require_writable_results, "results.*\n.*--results")],
)
def test_a_folder_that_cannot_be_written_is_told_before_anything_starts(tmp_path: Path, require, text) -> None:
    require(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingPrerequisite, match=text):
        require(tmp_path / "file")
