import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.files import pretty_json
from suite.results.notice import Notice, next_moment, parse_notice, read_notices

FIELDS = {
    "schema_version": 1,
    "kind": "correction",
    "created": "2026-04-01T00:00:00Z",
    "bundle_id": "fp8-kv/20260304T050607Z-0123456789ab",
    "record_sha256": "a" * 64,
    "why": "the driver was another one",
    "replaced_by": None,
}


def test_notices_are_read_in_the_order_of_time(repository):
    bundle = repository.bundle()
    repository.notice(bundle, seconds=5, kind="withdrawal")
    repository.notice(bundle, seconds=1)
    assert [notice.kind for notice in read_notices(repository.results)] == ["correction", "withdrawal"]


def test_a_second_notice_of_the_same_second_is_refused(repository):
    bundle = repository.bundle()
    path = repository.notice(bundle)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="exists already"):
        repository.notice(bundle, why="something else")
    assert path.read_bytes() == before


def test_two_notices_of_one_moment_stand_one_after_the_other(repository):
    now = datetime(2026, 4, 1, tzinfo=UTC)
    bundle = repository.bundle()
    repository.notice(bundle, seconds=3)
    found = read_notices(repository.results)
    assert next_moment((), now) == "2026-04-01T00:00:00Z"
    assert next_moment(found, now) == "2026-04-01T00:00:04Z"
    assert next_moment(found, datetime(2026, 5, 1, tzinfo=UTC)) == "2026-05-01T00:00:00Z"


def test_a_notice_under_another_name_is_refused(repository):
    path = repository.notice(repository.bundle())
    path.rename(path.with_name("20250101T000000Z-0123456789ab.json"))
    with pytest.raises(VerificationFailed, match="is not called"):
        read_notices(repository.results)


def test_a_link_is_refused(repository):
    path = repository.notice(repository.bundle())
    moved = path.rename(repository.root / "elsewhere.json")
    path.symlink_to(moved)
    with pytest.raises(VerificationFailed, match="cannot be opened"):
        read_notices(repository.results)


@pytest.mark.parametrize(
    "changes",
    [
        {"why": ""},
        {"why": " \n "},
        {"why": "x" * 2001},
        {"why": "red \x1b[31m"},
        {"why": "\u202egnp.exe"},
        {"why": "a\u200bb"},
        {"why": "a\rb"},
        {"why": ["a"]},
        {"replaced_by": FIELDS["bundle_id"]},
        {"replaced_by": "../../etc"},
        {"kind": "deletion"},
        {"html": "<b>"},
        {"created": "2026-04-01"},
    ],
)
def test_what_is_no_notice(changes):
    with pytest.raises(InvalidInput, match="not a notice"):
        parse_notice(pretty_json(FIELDS | changes), where="x")


def test_words_of_every_script_are_fine():
    why = "Der Treiber war ein anderer: 580.159 → 575.57\nこれは正しい。"
    assert parse_notice(pretty_json(FIELDS | {"why": why}), where="x").why == why


@given(st.binary(max_size=200))
def test_bytes_are_a_notice_or_an_error_of_ours(data):
    with contextlib.suppress(SuiteError):
        assert isinstance(parse_notice(data, where="x"), Notice)
