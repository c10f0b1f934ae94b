import json
import os
import tarfile

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.reference.pack import write_pack
from suite.reference.pull import pull
from suite.reference.schema import RECORD_NAME
from tests.reference.world import hidden_capture, packed, reference_lock


@pytest.fixture
def stored(home, tmp_path):
    return hidden_capture(home, reference_lock(tmp_path))


def test_a_pack_is_a_plain_tar_that_begins_with_its_record(pack):
    with tarfile.open(pack, "r:") as tar:
        names = tar.getnames()
        record = json.load(tar.extractfile(RECORD_NAME))
        infos = list(tar)
    assert names[:4] == [RECORD_NAME, "lock.json", "index.json", "receipt.json"]
    assert [n.split("/")[0].split("-")[0] for n in names[4:]] == ["heads", "chunk", "chunk", "chunk"]
    assert [m["path"] for m in record["members"]] == names[1:]
    assert record["num_rows"] == 29
    assert record["licence"] == "CC0-1.0"
    assert {(i.mtime, i.uid, i.gid, i.uname, i.mode, i.isreg()) for i in infos} == {(0, 0, 0, "", 0o644, True)}


def test_equal_captures_give_equal_bytes_also_after_a_pull(pack, home, tmp_path):
    again = pull(str(pack), home=home).stored
    write_pack(again, heads=home / "captures" / "heads", out=tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == pack.read_bytes()


def test_the_time_in_a_pack_is_the_captures(stored, home, tmp_path):
    os.utime(stored.capture.folder / "index.json", (1_700_000_000, 1_700_000_000))
    record = write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / "p.tar")
    assert record.created == "2023-11-14T22:13:20Z"
    assert record.licence == "not stated"


def test_a_logits_capture_needs_no_head(tmp_path):
    with tarfile.open(packed(tmp_path, codec="logits"), "r:") as tar:
        assert not [name for name in tar.getnames() if name.startswith("heads/")]


def test_no_file_is_written_over(stored, home, tmp_path):
    (tmp_path / "p.tar").write_text("mine")
    with pytest.raises(InvalidInput, match="such a file already"):
        write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / "p.tar")
    assert (tmp_path / "p.tar").read_text() == "mine"


def test_a_missing_head_is_told(stored, home, tmp_path):
    [head] = (home / "captures" / "heads").iterdir()
    head.unlink()
    with pytest.raises(MissingPrerequisite, match="head of this capture is not in the store"):
        write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / "p.tar")


@pytest.mark.parametrize("what", ["chunk", "head"])
def test_a_damaged_capture_is_not_packed(stored, home, tmp_path, what):
    heads = home / "captures" / "heads"
    path = next(heads.iterdir()) if what == "head" else stored.capture.folder / "chunk-00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(VerificationFailed, match="not those that were captured"):
        write_pack(stored, heads=heads, out=tmp_path / "out" / "p.tar")
    assert list((tmp_path / "out").glob("*") if (tmp_path / "out").exists() else []) == []


def test_rows_that_are_not_finite_make_no_reference(home, tmp_path):
    stored = hidden_capture(home, reference_lock(tmp_path), non_finite_rows=1)
    with pytest.raises(VerificationFailed, match="1 rows are not finite"):
        write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / "p.tar")


def test_a_long_licence_note_is_refused(stored, home, tmp_path):
    with pytest.raises(InvalidInput, match="at most 2,000 characters"):
        write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / "p.tar", licence="x" * 2001)
