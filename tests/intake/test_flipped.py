"""Any one flipped byte of an untouched bundle is caught."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.bundle.read import open_bundle
from suite.bundle.schema import RECORD_NAME, parse_record
from suite.bundle.verify import verify_bundle
from suite.errors import SuiteError
from suite.intake.examine import examine
from suite.signing import STATEMENT_NAME, sign_folder, verify_folder


def flip(path, offset, bit):
    with path.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)[0]
        stream.seek(offset)
        stream.write(bytes([byte ^ (1 << bit)]))


@pytest.fixture
def untouched(bundle):
    """The bundle as files of its own: those of the repository may be hard links."""
    for path in bundle.iterdir():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    return bundle


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_bit_of_any_file(untouched, tmp_path_factory, data):
    """The whole gate, at offsets of all sizes of file."""
    name = data.draw(st.sampled_from(sorted(path.name for path in untouched.iterdir())))
    size = (untouched / name).stat().st_size
    offset, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    flip(untouched / name, offset, bit)
    try:
        report = examine(untouched, scratch=tmp_path_factory.mktemp("scratch"), results=None)
    finally:
        flip(untouched / name, offset, bit)
    assert report.findings, (name, offset, bit)
    assert report.exit_code == 5


def test_the_bundle_was_accepted_before(untouched, tmp_path):
    assert examine(untouched, scratch=tmp_path, results=None).accepted


STEPS = pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.soak), 29])


@STEPS
def test_bytes_of_the_record(untouched, step):
    """All of `bundle.json` is hashed in itself, and must be in the form in which it was written."""
    data = bytearray((untouched / RECORD_NAME).read_bytes())
    for offset in range(0, len(data), step):
        data[offset] ^= 1 << offset % 8
        with pytest.raises(SuiteError):
            parse_record(bytes(data), where=RECORD_NAME)
        data[offset] ^= 1 << offset % 8
    parse_record(bytes(data), where=RECORD_NAME)


@STEPS
def test_every_byte_of_the_small_files(untouched, step):
    """Each byte, in each of its bits by turns, flipped where it lies."""
    bundle = open_bundle(untouched)
    small = [name for name in bundle.record.files if (untouched / name).stat().st_size < 4_000]
    assert len(small) >= 6
    for name in small:
        for offset in range(0, (untouched / name).stat().st_size, step):
            flip(untouched / name, offset, offset % 8)
            with pytest.raises(SuiteError):
                bundle.require_unchanged(name)
            flip(untouched / name, offset, offset % 8)
    assert verify_bundle(untouched, yaml=False).failure is None


def test_one_byte_of_each_file(untouched, tmp_path):
    """Each file is looked at: its first, a middle and its last byte."""
    for path in sorted(untouched.iterdir()):
        size = path.stat().st_size
        for number, offset in enumerate((0, size // 2, size - 1)):
            flip(path, offset, 0)
            scratch = tmp_path / f"{path.name}-{number}"
            scratch.mkdir()
            assert examine(untouched, scratch=scratch, results=None).findings, (path.name, offset)
            flip(path, offset, 0)


@STEPS
def test_every_byte_of_a_statement(untouched, keys, step):
    """One statement with one set of signatures has one form: no byte of it can be changed."""
    path = sign_folder(untouched, keys[0], kind="result")
    from suite.signing.statement import verify_envelope

    verify_folder(untouched)
    data = bytearray(path.read_bytes())
    for offset in range(0, len(data), step):
        data[offset] ^= 1 << offset % 8
        with pytest.raises(SuiteError):
            verify_envelope(bytes(data), where=STATEMENT_NAME)
        data[offset] ^= 1 << offset % 8
