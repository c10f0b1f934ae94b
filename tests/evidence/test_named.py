import pytest

from suite.errors import InvalidInput
from suite.evidence.named import named_evidence
from suite.files import pretty_json

PACK = {"url": "https://example.org/reference.tar", "sha256": "a" * 64, "size_bytes": 10}
SUBMISSION = {
    "schema_version": 1,
    "id": "fp8-kv-0123456789ab",
    "kind": "full",
    "created": "2026-03-04T05:06:07Z",
    "bundle_id": "fp8-kv/20260304T050607Z-0123456789ab",
    "record_sha256": "0123456789ab" + "0" * 52,
    "licence": "CC0-1.0",
    "session_public": True,
    "evidence": {"reference": PACK, "candidate": None},
    "commitment": None,
    "submitter": None,
    "note": "",
}


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "fp8-kv-0123456789ab" / "bundle" / "fp8-kv" / "20260304T050607Z-0123456789ab"
    folder.mkdir(parents=True)
    return folder


def written(bundle, **changes):
    (bundle.parent.parent.parent / "submission.json").write_bytes(pretty_json(SUBMISSION | changes))
    return bundle


def test_the_packs_of_the_submission_around_a_bundle(bundle):
    (pack,) = named_evidence(written(bundle))
    assert (pack.url, pack.size_bytes) == (PACK["url"], 10)


def test_a_submission_that_names_none(bundle):
    assert named_evidence(written(bundle, evidence=None)) == ()


def test_a_bundle_that_lies_in_no_submission(bundle):
    assert named_evidence(bundle) == ()
    assert named_evidence(bundle.parent) == ()


@pytest.mark.parametrize("url", ["http://169.254.169.254/x", "file:///etc/passwd", "https://user@host/x"])
def test_only_plain_addresses_are_taken(bundle, url):
    with pytest.raises(InvalidInput):
        named_evidence(written(bundle, evidence={"reference": PACK | {"url": url}, "candidate": None}))
