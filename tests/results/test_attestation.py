import json
import shutil

import pytest
from pydantic import ValidationError

from suite.bundle.read import open_bundle
from suite.errors import InvalidInput, VerificationFailed
from suite.files import pretty_json
from suite.results.attestation import (
    Consistent,
    parse_attestation,
    read_attestation,
    read_attestations,
    require_someone_else,
    write_attestation,
)
from suite.signing import sign_folder
from tests.results.repository import attestation, reproduced


def test_an_attestation_is_written_signed_and_read(repository):
    bundle = repository.bundle()
    folder = repository.attest(bundle, by="checker")
    key_id = repository.key("checker").key_id
    assert folder.name == f"consistent-{bundle.record.record_sha256[:12]}-{key_id.partition(':')[2][:8]}"
    (found,) = read_attestations(repository.results)
    assert (found.folder, found.key_ids, found.bundle) == (folder, (key_id,), None)
    assert found.attestation == attestation(bundle)


def test_a_reproducers_bundle_comes_with_it(repository):
    theirs, ours = repository.bundle(), repository.bundle("fp8-kv", into=repository.root / "own", later_seconds=9)
    detail = reproduced(own_record_sha256=ours.record.record_sha256)
    made = attestation(theirs, kind="reproduced", detail=detail)
    folder = write_attestation(made, results=repository.results, key=repository.key("other"), bundle=ours.folder)
    found = read_attestation(folder)
    assert found.bundle == folder / "bundle" / ours.bundle_id
    with pytest.raises(InvalidInput, match="not the bundle that the attestation names"):
        write_attestation(made, results=repository.results, key=repository.key("third"), bundle=theirs.folder)
    assert [one.folder for one in read_attestations(repository.results)] == [folder]


def require(repository, bundle, name, *, kind="consistent", results=None):
    key_id = repository.key(name).key_id
    require_someone_else(bundle, kind=kind, key_id=key_id, results=results or repository.results)


def test_who_signed_a_bundle_or_its_submission_does_not_attest_it(repository, tmp_path):
    folder = repository.submission()
    bundle = open_bundle(next(folder.glob("bundle/*/*")))
    copy = open_bundle(shutil.copytree(bundle.folder, tmp_path / "copy" / bundle.record.name / bundle.folder.name))
    for named in (bundle, copy):
        with pytest.raises(InvalidInput, match="signed the bundle or its submission"):
            require(repository, named, "submitter")
        require(repository, named, "checker")
    # Seen from the bundle alone, and from the results folder alone.
    with pytest.raises(InvalidInput, match="signed the bundle"):
        require(repository, bundle, "submitter", results=tmp_path / "elsewhere")
    require(repository, copy, "submitter", results=tmp_path / "elsewhere")
    sign_folder(copy.folder, repository.key("measurer"), kind="result")
    with pytest.raises(InvalidInput, match="signed the bundle"):
        require(repository, copy, "measurer", results=tmp_path / "elsewhere")


def test_a_maintainers_own_bundle_is_attested_by_somebody_else(repository, tmp_path):
    own = repository.bundle()
    copy = open_bundle(shutil.copytree(own.folder, tmp_path / "copy" / own.record.name / own.folder.name))
    sign_folder(own.folder, repository.key("maintainer"), kind="result")
    with pytest.raises(InvalidInput, match="signed the bundle"):
        require(repository, copy, "maintainer", kind="reproduced")


def test_what_a_key_has_attested_is_said_before_it_is_done_again(repository):
    bundle = repository.bundle()
    folder = repository.attest(bundle, by="checker")
    with pytest.raises(InvalidInput, match="has attested the ledger of this bundle already") as caught:
        require(repository, bundle, "checker")
    assert caught.value.where == str(folder)
    require(repository, bundle, "checker", kind="reproduced")


def test_one_key_attests_a_thing_once(repository):
    bundle = repository.bundle()
    repository.attest(bundle, by="checker")
    with pytest.raises(InvalidInput, match="exists already"):
        repository.attest(bundle, by="checker")
    repository.attest(bundle, by="another")
    assert len(read_attestations(repository.results)) == 2


def test_a_changed_attestation_is_refused(repository):
    folder = repository.attest(repository.bundle(), by="checker")
    value = json.loads((folder / "attestation.json").read_bytes())
    (folder / "attestation.json").write_bytes(pretty_json(value | {"created": "2020-01-01T00:00:00Z"}))
    with pytest.raises(VerificationFailed, match="SHA-256"):
        read_attestations(repository.results)


def test_a_signature_of_another_kind_does_not_count(repository):
    folder = repository.attest(repository.bundle(), by="checker")
    (folder / "statement.dsse.json").unlink()
    sign_folder(folder, repository.key("checker"), kind="result")
    with pytest.raises(VerificationFailed, match="of kind result, not attestation"):
        read_attestation(folder)


def test_an_unsigned_one_and_a_wrong_name_are_refused(repository):
    folder = repository.attest(repository.bundle(), by="checker")
    moved = folder.rename(folder.with_name("consistent-0123456789ab-01234567"))
    with pytest.raises(VerificationFailed, match="not named after"):
        read_attestation(moved)
    (moved / "statement.dsse.json").unlink()
    with pytest.raises(VerificationFailed, match="not named after"):
        read_attestation(moved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"detail": reproduced()}, "is not that of kind consistent"),
        ({"kind": "reproduced"}, "is not that of kind reproduced"),
        ({"created": "yesterday"}, "created"),
        ({"bundle_id": "../x"}, "bundle_id"),
    ],
)
def test_what_contradicts_itself_is_no_attestation(repository, changes, message):
    bundle = repository.bundle()
    with pytest.raises(ValidationError, match=message):
        attestation(bundle, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"drawn": 12},
        {"drawn": 5},
        {"nonce": "a" * 64},
        {"method": "drawn", "drawn": 5},
        {"method": "drawn", "drawn": 5, "nonce": "a" * 64},
    ],
)
def test_counts_of_a_consistent_one_fit_together(changes):
    fields = {"method": "whole", "rows": 11, "drawn": 11, "nonce": None, "root": None}
    with pytest.raises(ValidationError):
        Consistent(**(fields | changes))


@pytest.mark.parametrize("changes", [{"identical_rows": 12}, {"flips": 1}, {"verdict": "differs"}, {"n": 0}])
def test_counts_of_a_reproduction_fit_together(changes):
    with pytest.raises(ValidationError):
        reproduced(**changes)


def test_a_newer_version_is_refused_as_newer(repository):
    value = attestation(repository.bundle()).model_dump(mode="json") | {"schema_version": 2}
    with pytest.raises(InvalidInput, match="newer"):
        parse_attestation(pretty_json(value), where="x")
