import json

import pytest

from suite.bundle.read import open_bundle
from suite.errors import SuiteError, VerificationFailed
from suite.results.check import check_results
from suite.results.index import index_is_current, write_index
from suite.results.load import load_results


@pytest.fixture
def whole(repository):
    bundle = repository.bundle()
    repository.submission("given")
    repository.attest(bundle, by="checker")
    repository.notice(bundle, replaced_by=load_results(repository.results).results[1].bundle_id)
    repository.trust("checker")
    write_index(load_results(repository.results))
    repository.commit(new=True)
    return repository


def messages(repository, **options):
    return {problem.where: problem.message for problem in check_results(repository.results, **options).problems}


def test_a_whole_folder_holds(whole):
    assert messages(whole, since="main") == {}
    assert check_results(whole.results).num_results == 2


def test_the_index_says_all_and_is_the_same_each_time(whole):
    path = whole.results / "index.json"
    first = path.read_bytes()
    write_index(load_results(whole.results))
    assert path.read_bytes() == first
    own, given = json.loads(first)["results"]
    assert (own["origin"], own["tier"], own["withdrawn"]) == ("own", "consistent", False)
    assert own["attestations"][0]["found"] == "11 of 11 rows"
    assert own["attestations"][0]["trusted"]
    assert own["notices"][0]["replaced_by"] == given["bundle_id"]
    assert given["signers"] == [whole.key("submitter").key_id]
    assert given["licence"] == "CC-BY-4.0"
    assert str(whole.root) not in first.decode()


def test_an_index_that_is_absent_old_or_edited(whole):
    path = whole.results / "index.json"
    path.write_bytes(path.read_bytes().replace(b"consistent", b"reproduced"))
    assert messages(whole) == {"index.json": "not what a rebuild gives; run `suite result index`"}
    path.unlink()
    assert not index_is_current(load_results(whole.results))
    assert "index.json" in messages(whole)


def test_notices_and_attestations_of_what_is_not_here(whole):
    elsewhere = whole.bundle("elsewhere", into=whole.root / "elsewhere")
    notice, attested = whole.notice(elsewhere), whole.attest(elsewhere, by="checker")
    own = open_bundle(next(whole.results.glob("fp8-kv/*")))
    replaced = whole.notice(own, seconds=1, replaced_by=elsewhere.bundle_id)
    write_index(load_results(whole.results))
    found = messages(whole)
    assert found.keys() == {notice.name, attested.name, replaced.name}
    assert "replacement" in found[replaced.name]


def test_a_notice_that_names_another_bundles_record(whole):
    given = load_results(whole.results).results[1]
    own = open_bundle(next(whole.results.glob("fp8-kv/*")))
    path = whole.notice(own, seconds=1, record_sha256=given.record_sha256)
    write_index(load_results(whole.results))
    assert path.name in messages(whole)


def test_an_attestation_by_who_signed_the_bundle(whole):
    given = load_results(whole.results).results[1]
    folder = whole.attest(open_bundle(given.bundle), by="submitter")
    write_index(load_results(whole.results))
    (message,) = [messages(whole)[folder.name]]
    assert whole.key("submitter").key_id in message
    assert "somebody else must attest" in message


def test_strays_and_links_are_refused_before_anything_is_read(whole):
    (whole.results / "notices" / "deep").mkdir()
    (whole.results / "notices" / "deep" / "a.json").write_text("not JSON")
    (whole.results / "attestations" / "away").symlink_to("/etc")
    found = messages(whole)
    assert found == {
        "notices/deep/a.json": "belongs to no submission, attestation, bundle or notice",
        "attestations/away": "neither a folder nor a plain file",
    }


def test_a_damaged_file_of_a_bundle(whole):
    log = next(whole.results.glob("fp8-kv/*/engine.log"))
    log.write_text("another")
    with pytest.raises(VerificationFailed, match="not the file that the record names"):
        check_results(whole.results)


def test_a_partial_bundle_is_no_addition(whole):
    bundle = whole.bundle("new")
    (bundle.folder / "lock.json").unlink()
    whole.git("add", "results")
    with pytest.raises(SuiteError):
        check_results(whole.results, since="main", by_maintainer=True)


def test_local_bundles_are_passed_over(whole):
    whole.bundle("local")
    assert messages(whole, since="main") == {}
    whole.git("add", "results")
    report = check_results(whole.results, since="main", by_maintainer=True)
    assert [place.partition("/")[0] for place in report.added] == ["local"]
    assert [problem.where for problem in report.problems] == ["index.json"]
