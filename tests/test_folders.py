import errno
import os
from pathlib import Path

import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.folders import whole_folder


def test_a_folder_appears_whole(tmp_path):
    final = tmp_path / "deep" / "one"
    with whole_folder(final, what="a thing") as folder:
        assert folder.name == "one"
        (folder / "below").mkdir()
        (folder / "below" / "a").write_text("a")
        assert not final.exists()
    assert (final / "below" / "a").read_text() == "a"
    assert [path.name for path in final.parent.iterdir()] == ["one"]


def test_folders_above_go_with_one_that_fails(tmp_path):
    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        written(tmp_path / "deep" / "deeper" / "one", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_above_that_was_there_or_is_used_by_now_stays(tmp_path):
    (tmp_path / "there").mkdir()

    def fail():
        (tmp_path / "there" / "deep" / "theirs").write_text("b")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        written(tmp_path / "there" / "deep" / "one", fail)
    assert [path.name for path in (tmp_path / "there" / "deep").iterdir()] == ["theirs"]
    (tmp_path / "there" / "deep" / "theirs").unlink()
    (tmp_path / "there" / "deep").rmdir()

    def only_fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        written(tmp_path / "there" / "one", only_fail)
    assert (tmp_path / "there").is_dir()


def written(final, then):
    """A folder with one file, and what happens before it gets its name."""
    with whole_folder(final, what="a thing") as folder:
        (folder / "a").write_text("a")
        then()


def test_nothing_is_left_of_one_that_fails(tmp_path):
    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        written(tmp_path / "one", fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_is_there_stays(tmp_path, make):
    final = tmp_path / "one"
    make(final)
    with pytest.raises(InvalidInput, match="a thing exists already"), whole_folder(final, what="a thing"):
        pytest.fail("nothing is written")
    assert list(tmp_path.iterdir()) == [final]


def test_what_appears_meanwhile_stays(tmp_path):
    final = tmp_path / "one"

    def appear():
        final.mkdir()
        (final / "theirs").write_text("b")

    with pytest.raises(InvalidInput, match="exists already"):
        written(final, appear)
    assert [path.name for path in final.iterdir()] == ["theirs"]


def test_a_full_disk_leaves_nothing(tmp_path):
    with (
        pytest.raises(MissingPrerequisite, match="no space left for a thing"),
        whole_folder(tmp_path / "one", what="a thing"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / ".two.999999999.partial" / "two"
    left.mkdir(parents=True)
    running = tmp_path / f".three.{os.getppid()}.partial"
    running.mkdir()
    with whole_folder(tmp_path / "one", what="a thing"):
        pass
    assert not left.parent.exists()
    assert running.exists()
