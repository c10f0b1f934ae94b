"""Archives that hold plain files come out as they went in, whoever made them."""

import io
import tarfile
import zipfile
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.errors import SuiteError
from suite.intake.archive import unpack
from suite.intake.limits import LIMITS
from suite.intake.refusal import Refused, Unusable
from tests.intake.archives import tar, tar_entry, zip_of

FILES = {"a/bundle.json": b"{}", "a/lock.json": b"[1, 2]" * 300, "a/engine.log": b""}


def out(tmp_path, data):
    path, target = tmp_path / "archive", tmp_path / "target"
    path.write_bytes(data)
    target.mkdir()
    root = unpack(path, target, LIMITS)
    return {f"{root.name}/{file.name}": file.read_bytes() for file in root.iterdir()}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_tar(form, tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert out(tmp_path, stream.getvalue()) == FILES


def test_zip(tmp_path):
    assert out(tmp_path, zip_of(*FILES.items())) == FILES


def test_zip_with_descriptors(tmp_path):
    """Of a packer that could not seek: sizes follow each entry."""

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    assert out(tmp_path, bytes(pipe.data)) == FILES


def test_wrapping_folders_are_left_out(tmp_path):
    data = tar(tar_entry("results/w8a8/20990101T000000Z-000000000000/bundle.json", b"{}"))
    assert list(out(tmp_path, data)) == ["20990101T000000Z-000000000000/bundle.json"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([zip_of(*FILES.items()), tar(*(tar_entry(name, data) for name, data in FILES.items()))]),
    st.integers(0, 4_000),
    st.integers(0, 7),
)
def test_a_flipped_bit_raises_nothing_else(tmp_path_factory, data, offset, bit):
    spoilt = bytearray(data)
    spoilt[offset % len(data)] ^= 1 << bit
    folder = tmp_path_factory.mktemp("archive")
    with suppress(Refused, Unusable):
        out(folder, bytes(spoilt))
    assert {path.name for path in folder.iterdir()} == {"archive", "target"}


def test_link_to_an_archive(tmp_path):
    (tmp_path / "archive").symlink_to("/etc/passwd")
    (tmp_path / "target").mkdir()
    with pytest.raises(SuiteError):
        unpack(tmp_path / "archive", tmp_path / "target", LIMITS)


def test_messages_name_the_entry(tmp_path):
    with pytest.raises(Refused, match="a/bundle") as error:
        out(tmp_path, tar(tar_entry("a/bundle.json", kind=b"2", link=b"x")))
    assert error.value.hint
