from pathlib import Path

from suite.stack.home import suite_home


def test_chosen_folder() -> None:
    assert suite_home({"SUITE_HOME": "/data/suite", "XDG_CACHE_HOME": "/c"}) == Path("/data/suite")
    assert suite_home({"SUITE_HOME": "~/x"}) == Path.home() / "x"
    assert suite_home({"SUITE_HOME": "relative"}).is_absolute()


def test_cache_folder() -> None:
    assert suite_home({"XDG_CACHE_HOME": "/c"}) == Path("/c/suite")
    assert suite_home({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/suite"
    assert suite_home({"SUITE_HOME": ""}) == Path.home() / ".cache/suite"
