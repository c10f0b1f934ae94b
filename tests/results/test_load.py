import json
import shutil

import pytest

from suite.bundle.read import open_bundle
from suite.errors import VerificationFailed
from suite.files import pretty_json
from suite.results.load import load_results
from suite.signing import sign_folder
from suite.submission.private import keyed_record
from suite.submission.read import open_submission
from tests.results.repository import OWNER_KEY, reproduced


def only(repository):
    (found,) = load_results(repository.results).results
    return found


def submitted_bundle(folder):
    return open_bundle(next((folder / "bundle").glob("*/*")))


def test_an_empty_folder_has_no_results(tmp_path):
    assert load_results(tmp_path).results == ()


def test_an_own_bundle(repository):
    bundle = repository.bundle()
    found = only(repository)
    assert (found.bundle_id, found.record_sha256) == (bundle.bundle_id, bundle.record.record_sha256)
    assert (found.origin, found.bundle, found.submission) == ("own", bundle.folder, None)
    assert (found.tier, found.signers, found.is_withdrawn) == ("self-reported", (), False)


def test_an_own_bundles_signature_counts(repository):
    bundle = repository.bundle()
    sign_folder(bundle.folder, repository.key("maintainer"), kind="result")
    assert only(repository).signers == (repository.key("maintainer").key_id,)
    (bundle.folder / "engine.log").write_text("another")
    with pytest.raises(VerificationFailed):
        load_results(repository.results)


def test_a_submission_through_its_tiers(repository):
    folder = repository.submission()
    bundle = submitted_bundle(folder)
    found = only(repository)
    assert (found.origin, found.tier, found.bundle) == ("submitted", "self-reported", bundle.folder)
    assert found.signers == (repository.key("submitter").key_id,)
    repository.attest(bundle, by="checker")
    assert only(repository).tier == "self-reported"
    repository.trust("checker")
    assert only(repository).tier == "consistent"
    repository.attest(bundle, by="checker", kind="reproduced", detail=reproduced())
    assert only(repository).tier == "reproduced"
    repository.trust()
    assert only(repository).tier == "self-reported"


def test_a_withdrawn_result_stays_and_says_so(repository):
    bundle = submitted_bundle(repository.submission())
    repository.notice(bundle)
    found = only(repository)
    assert (found.is_withdrawn, len(found.corrections)) == (False, 1)
    repository.notice(bundle, seconds=1, kind="withdrawal", why="the wrong card")
    found = only(repository)
    assert found.is_withdrawn
    assert found.withdrawal.why == "the wrong card"
    assert [notice.kind for notice in found.notices] == ["correction", "withdrawal"]


def test_a_private_submission_stays_self_reported_whatever_is_said(repository):
    folder = repository.private()
    found = only(repository)
    assert (found.origin, found.bundle) == ("private", None)
    assert found.submission.aggregates.totals.flips == 2
    real = open_bundle(next((repository.root / "private-fp8-kv").glob("*/*")))
    repository.trust("checker")
    named = repository.read_submission(folder)
    said = {"bundle_id": named.bundle_id, "record_sha256": named.record_sha256}
    repository.attest(real, by="checker", kind="reproduced", detail=reproduced(), **said)
    found = only(repository)
    assert (len(found.attestations), found.tier) == (1, "self-reported")
    assert folder.name.startswith("fp8-kv-")


def test_a_private_submission_names_nothing_that_a_guess_could_be_tried_on(repository):
    folder = repository.private()
    real = open_bundle(next((repository.root / "private-fp8-kv").glob("*/*")))
    lock = real.lock()
    text = folder.name + "".join(path.read_text() for path in folder.iterdir())
    evidence = real.record.evidence
    for digest in (
        lock.digest,
        lock.digest[:12],
        lock.capture_digest,
        lock.workload.digest,
        lock.workload.tokens_sha256,
        real.record.reference_lock_digest,
        evidence.candidate.rows_sha256,
        evidence.reference.index_sha256,
        *real.record.files.values(),
        real.record.record_sha256,
        real.record.record_sha256[:12],
        OWNER_KEY.hex(),
    ):
        assert digest not in text
    assert keyed_record(real.record, OWNER_KEY) in text


def test_one_bundle_stands_once_among_what_is_published(repository):
    folder = repository.submission()
    bundle = submitted_bundle(folder)
    own = repository.results / bundle.bundle_id
    shutil.copytree(bundle.folder, own)
    assert only(repository).origin == "submitted"
    repository.git("init", "--quiet")
    assert only(repository).origin == "submitted"
    repository.git("add", str(own))
    with pytest.raises(VerificationFailed, match="the same bundle"):
        load_results(repository.results)


def test_nobody_sees_of_which_bundle_a_private_submission_is(repository):
    repository.private()
    private = next((repository.root / "private-fp8-kv").glob("*/*"))
    shutil.copytree(private, repository.results / "fp8-kv" / private.name)
    assert {one.origin for one in load_results(repository.results).results} == {"own", "private"}
    repository.git("init", "--quiet")
    repository.git("add", "results/submissions")
    assert only(repository).origin == "private"


def test_a_bundle_below_another_name_is_refused(repository):
    bundle = repository.bundle()
    bundle.folder.parent.rename(repository.results / "other")
    with pytest.raises(VerificationFailed, match="not called fp8-kv"):
        load_results(repository.results)


def rewrite(folder, **changes):
    path = folder / "submission.json"
    path.write_bytes(pretty_json(json.loads(path.read_bytes()) | changes))


@pytest.mark.parametrize(
    ("by", "changes", "message"),
    [
        (None, {"submitter": f"ed25519:{'a' * 64}"}, "not who signed"),
        ("submitter", {"submitter": None}, "not who signed"),
        ("submitter", {"submitter": f"ed25519:{'a' * 64}"}, "not who signed"),
    ],
)
def test_a_submission_says_who_signed_it(repository, by, changes, message):
    folder = repository.submission(by=by, **changes)
    with pytest.raises(VerificationFailed, match=message):
        open_submission(folder)


def test_a_changed_submission_is_refused(repository):
    folder = repository.submission()
    rewrite(folder, licence="CC0-1.0")
    with pytest.raises(VerificationFailed):
        open_submission(folder)


def test_a_submission_holds_the_bundle_that_it_names(repository):
    folder = repository.submission(by=None, bundle_id="fp8-kv/20200101T000000Z-0123456789ab")
    with pytest.raises(VerificationFailed, match="another result"):
        open_submission(folder)


def test_parts_of_the_other_kind_are_refused(repository):
    folder = repository.private(by=None)
    (folder / "bundle").mkdir()
    with pytest.raises(VerificationFailed, match="no part of a private submission"):
        open_submission(folder)
    (folder / "bundle").rmdir()
    (folder / "aggregates.json").unlink()
    with pytest.raises(VerificationFailed, match="missing"):
        open_submission(folder)


def test_a_submissions_folder_has_its_id_for_a_name(repository):
    folder = repository.submission()
    moved = folder.rename(folder.with_name("fp8-kv-0123456789ab"))
    with pytest.raises(VerificationFailed, match="is not called"):
        open_submission(moved)
