import pytest

from suite.errors import InvalidInput
from suite.files import pretty_json
from suite.submission.schema import parse_submission

RECORD = "ab" * 32
PACK = {"url": "https://example.org/packs/a.tar", "sha256": "c" * 64, "size_bytes": 5}
FULL = {
    "schema_version": 1,
    "id": f"fp8-kv-{RECORD[:12]}",
    "kind": "full",
    "created": "2026-03-05T00:00:00Z",
    "bundle_id": "fp8-kv/20260304T050607Z-0123456789ab",
    "record_sha256": RECORD,
    "licence": "CC-BY-4.0",
    "session_public": True,
    "evidence": {"reference": PACK, "candidate": None},
    "commitment": {"root": "d" * 64, "leaves": 11},
    "submitter": f"ed25519:{'a' * 64}",
    "note": "measured twice",
}
PRIVATE = FULL | {"kind": "private", "session_public": False, "evidence": None, "commitment": None}


@pytest.mark.parametrize("value", [FULL, PRIVATE])
def test_a_submission_is_read_and_written_the_same(value):
    found = parse_submission(pretty_json(value), where="x")
    assert found.to_bytes() == pretty_json(value)
    assert found.name == "fp8-kv"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (FULL | {"id": "other-0123456789ab"}, "not made of"),
        (FULL | {"session_public": False}, "session_public"),
        (PRIVATE | {"session_public": True}, "private"),
        (PRIVATE | {"commitment": FULL["commitment"]}, "private"),
        (PRIVATE | {"evidence": FULL["evidence"]}, "private"),
        (FULL | {"licence": "free <b>"}, "licence"),
        (FULL | {"note": "\x1b[0m"}, "not printable"),
        (FULL | {"tier": "reproduced"}, "tier"),
        (FULL | {"evidence": {"reference": PACK | {"url": "http://example.org/a"}, "candidate": None}}, "url"),
        (FULL | {"evidence": {"reference": PACK | {"url": "https://u:p@example.org/a"}, "candidate": None}}, "url"),
        (FULL | {"evidence": {"reference": PACK | {"url": "https://example.org/a?t=1"}, "candidate": None}}, "url"),
        (FULL | {"submitter": "me"}, "submitter"),
        (FULL | {"schema_version": 2}, "newer"),
        (FULL | {"schema_version": True}, "schema_version"),
    ],
)
def test_what_is_no_submission(value, message):
    with pytest.raises(InvalidInput, match=message):
        parse_submission(pretty_json(value), where="x")
