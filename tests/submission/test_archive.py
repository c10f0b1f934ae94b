import gzip
import os
import tarfile

import pytest

from suite.errors import InvalidInput
from suite.submission.archive import require_archive_name, write_archive


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "one"
    (root / "bundle" / "deep").mkdir(parents=True)
    (root / "b.json").write_text("{}")
    (root / "bundle" / "deep" / "a.txt").write_text("a" * 1000)
    return root


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz"])
def test_files_alone_and_nothing_of_the_machine(folder, tmp_path, name):
    (folder / "b.json").chmod(0o700)
    write_archive(folder, tmp_path / name)
    with tarfile.open(tmp_path / name) as archive:
        entries = archive.getmembers()
        assert [entry.name for entry in entries] == ["b.json", "bundle/deep/a.txt"]
        for entry in entries:
            assert (entry.mtime, entry.uid, entry.uname, entry.mode) == (0, 0, "", 0o644)


def test_the_same_files_give_the_same_bytes(folder, tmp_path):
    write_archive(folder, tmp_path / "a.tar.gz")
    os.utime(folder / "b.json", (1, 1))
    write_archive(folder, tmp_path / "other-name.tar.gz")
    first = (tmp_path / "a.tar.gz").read_bytes()
    assert first == (tmp_path / "other-name.tar.gz").read_bytes()
    write_archive(folder, tmp_path / "a.tar")
    assert gzip.decompress(first) == (tmp_path / "a.tar").read_bytes()


def test_names_that_cannot_be_written(tmp_path):
    with pytest.raises(InvalidInput, match="ends in"):
        require_archive_name(tmp_path / "x.rar")
    (tmp_path / "x.tar").touch()
    with pytest.raises(InvalidInput, match="already"):
        require_archive_name(tmp_path / "x.tar")
