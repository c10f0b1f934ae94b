import json
import tarfile
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from suite.intake.intake import take_in
from suite.intake.limits import LIMITS
from suite.reference.signature import sign_pack
from tests.intake.here import look
from tests.reference.world import packed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return packed(tmp_path_factory.mktemp("pack")).read_bytes()


@pytest.fixture
def pack(tmp_path, made):
    path = tmp_path / "reference.tar"
    path.write_bytes(made)
    return path


def codes(path, **options):
    return [finding.code for finding in look(path, results=None, **options).findings]


def test_honest_pack(pack, keys):
    report = take_in(pack, results=None)
    assert report.accepted, report.findings
    assert (report.what, report.tier, report.key_ids) == ("reference pack", None, ())
    sign_pack(str(pack), keys[0])
    assert look(pack, results=None).key_ids == (keys[0].verify_key.key_id,)


def test_folder(pack, tmp_path):
    folder = tmp_path / "unpacked"
    with tarfile.open(pack) as archive:
        archive.extractall(folder, filter="data")
    assert look(folder, results=None).accepted
    (folder / "chunk-00000.safetensors").write_bytes(b"\xff" * 64)
    assert codes(folder) == ["pack-members"]


def test_flipped_byte(pack):
    """In the record, in a header, in a tensor."""
    data = pack.read_bytes()
    for offset in (600, data.index(b"safetensors\0"), len(data) // 2):
        pack.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        assert look(pack, results=None).exit_code == 5
    pack.write_bytes(data)
    assert look(pack, results=None).accepted


@pytest.mark.parametrize(
    ("limits", "code"), [({"expanded_bytes": 10_000}, "too-large"), ({"tensor_bytes": 10}, "file-too-large")]
)
def test_bounds(limits, code, pack):
    assert codes(pack, limits=replace(LIMITS, **limits)) == [code]


def test_future(pack):
    assert codes(pack, now=datetime(2001, 1, 1, tzinfo=UTC)) == ["from-the-future"]


def test_json_of_a_member_is_bounded(pack):
    assert codes(pack, limits=replace(LIMITS, json_depth=1)) == ["json-depth"]


def test_report_is_json(pack):
    assert json.loads(json.dumps(look(pack, results=None).to_json()))["what"] == "reference pack"
