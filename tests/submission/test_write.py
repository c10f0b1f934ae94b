import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from suite.bundle.read import open_bundle
from suite.bundle.redact import Private
from suite.bundle.write import write_bundle
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import sha256_file
from suite.intake.intake import take_in
from suite.signing import sign_folder, verify_folder
from suite.submission.preflight import Terms, preflight
from suite.submission.private import keyed_record
from suite.submission.read import open_submission
from suite.submission.schema import EvidencePack, EvidencePacks
from suite.submission.write import write_submission
from suite.workload.session import Session
from tests.bundle.world import World
from tests.results.repository import OWNER_KEY

ROOT = Path(__file__).parent.parent.parent
NOW = datetime(2026, 3, 5, tzinfo=UTC)
PUBLIC = Terms(session_public=True, licence="CC-BY-4.0")
PRIVATE = Terms(private=True, licence="CC-BY-4.0")


@pytest.fixture
def world(repository):
    return World(root=repository.root / "world")


@pytest.fixture
def bundle(world):
    parts = replace(world.parts(), engine_log="loaded\n", private=Private())
    return write_bundle(parts, results=world.results)


def checked(bundle, terms, **options):
    options = {"captures": None, "replay": None, "root": bundle} | options
    return preflight(bundle, terms, **options)


def submit(repository, bundle, terms=PUBLIC, *, by="submitter", agree=lambda *_: None, **where):
    where = where or {"out": repository.results / "submissions"}
    key = None if by is None else repository.key(by)
    return write_submission(checked(bundle, terms), terms, key=key, owner_key=OWNER_KEY, agree=agree, now=NOW, **where)


def test_a_bundle_becomes_a_submission_that_intake_accepts(repository, bundle):
    shown = []
    done = submit(repository, bundle, agree=lambda _, files: shown.extend(files))
    record = open_bundle(bundle).record
    assert done.path == repository.results / "submissions" / f"fp8-kv-{record.record_sha256[:12]}"
    opened = open_submission(done.path)
    assert opened.signers == (repository.key("submitter").key_id,)
    assert {path.name: sha256_file(path) for path in opened.bundle.iterdir() if path.name != "bundle.json"} == dict(
        record.files
    )
    written = {path.relative_to(done.path).as_posix() for path in done.path.rglob("*") if path.is_file()}
    assert {one.what for one in shown} == written
    assert take_in(done.path, results=None).accepted
    text = {one.what.rpartition("/")[2]: one.reveals for one in shown}
    assert "THE SESSION'S TEXT" in text["ledger.parquet"]
    assert "machine" in text["receipt.json"]


def test_who_says_no_leaves_nothing(repository, bundle):
    def no(*_):
        raise click.Abort

    for where in ({"out": repository.root / "out" / "deep"}, {"archive": repository.root / "out" / "a.tar"}):
        with pytest.raises(click.Abort):
            submit(repository, bundle, agree=no, **where)
        assert not (repository.root / "out").exists()


def test_nothing_is_written_over(repository, bundle):
    done = submit(repository, bundle)
    before = {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput, match="a full submission of this bundle exists already: of 2026-03-05") as caught:
        submit(repository, bundle, by="another")
    assert f"signed by {repository.key('submitter').key_id}" in caught.value.message
    assert before == {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()}


def test_a_name_that_is_taken_by_something_else_stays_so(repository, bundle):
    done = submit(repository, bundle)
    (done.path / "submission.json").write_text("no record")
    with pytest.raises(InvalidInput, match="this submission exists already"):
        submit(repository, bundle)


def test_a_private_one_beside_a_full_one_names_it_nowhere(repository, bundle):
    full, private = submit(repository, bundle), submit(repository, bundle, PRIVATE)
    record = open_bundle(bundle).record
    assert full.path != private.path
    statement = json.dumps(dict(verify_folder(private.path).statement.about))
    text = private.path.name + statement + "".join(path.read_text() for path in private.path.iterdir())
    for told in (record.record_sha256[:12], record.lock_digest[:12], full.submission.bundle_id):
        assert told not in text
    keyed = keyed_record(record, OWNER_KEY)
    assert private.submission.record_sha256 == keyed
    assert private.path.name == f"fp8-kv-{keyed[:12]}"
    assert keyed in statement
    with pytest.raises(InvalidInput, match="a private submission of this bundle exists already"):
        submit(repository, bundle, PRIVATE)
    elsewhere = preflight(bundle, PRIVATE, captures=None, replay=None, root=bundle)
    again = write_submission(
        elsewhere, PRIVATE, key=None, owner_key=bytes(32), agree=lambda *_: None, now=NOW, out=full.path.parent
    )
    assert again.path != private.path


def test_an_archive_is_the_same_each_time(repository, bundle):
    first = submit(repository, bundle, archive=repository.root / "a.tar.gz").path
    second = submit(repository, bundle, archive=repository.root / "b.tar.gz").path
    assert first.read_bytes() == second.read_bytes()
    assert take_in(first, results=None).accepted
    assert sorted(path.name for path in repository.root.glob("*.gz")) == ["a.tar.gz", "b.tar.gz"]


def test_the_bundles_own_signature_travels(repository, bundle):
    sign_folder(bundle, repository.key("measurer"), kind="result")
    done = submit(repository, bundle)
    assert set(open_submission(done.path).signers) == {
        repository.key(name).key_id for name in ("measurer", "submitter")
    }


def test_an_unsigned_one_says_so(repository, bundle):
    done = submit(repository, bundle, by=None)
    assert done.submission.submitter is None
    assert open_submission(done.path).signers == ()


def test_evidence_and_licence_stand_in_the_record(repository, bundle):
    pack = EvidencePack(url="https://example.org/r.tar", sha256="a" * 64, size_bytes=7)
    terms = replace(PUBLIC, evidence=EvidencePacks(reference=pack, candidate=None), note="two cards")
    shown = []
    done = submit(repository, bundle, terms, agree=lambda _, files: shown.extend(files))
    assert done.submission.evidence.reference == pack
    assert (done.submission.licence, done.submission.note) == ("CC-BY-4.0", "two cards")
    assert any(one.what == pack.url and "hidden states" in one.reveals for one in shown)


def test_a_private_one_holds_three_files(repository, bundle):
    done = submit(repository, bundle, PRIVATE)
    assert sorted(path.name for path in done.path.iterdir()) == [
        "aggregates.json",
        "statement.dsse.json",
        "submission.json",
    ]
    assert not done.submission.session_public
    report = take_in(done.path, results=None)
    assert (report.accepted, report.what, report.tier) == (True, "private submission", "self-reported")


def test_a_session_is_not_published_by_accident(bundle):
    with pytest.raises(InvalidInput, match="they are its text") as caught:
        checked(bundle, replace(PUBLIC, session_public=False))
    assert "--private" in caught.value.hint


def test_a_licence_is_named(bundle):
    for terms in (Terms(session_public=True), Terms(private=True)):
        with pytest.raises(InvalidInput, match="licence"):
            checked(bundle, terms)


@pytest.mark.parametrize("terms", [PUBLIC, PRIVATE])
@pytest.mark.parametrize("licence", ["nonsense", "", "private", "free for all", "CC-BY", "MIT OR", "<b>"])
def test_what_is_no_spdx_licence(bundle, terms, licence):
    with pytest.raises(InvalidInput, match="no SPDX licence") as caught:
        checked(bundle, replace(terms, licence=licence))
    assert caught.value.where == "--licence"
    assert "LicenseRef-NAME" in caught.value.hint


@pytest.mark.parametrize(
    ("licence", "spelled"),
    [
        ("cc-by-4.0", "CC-BY-4.0"),
        ("LicenseRef-mine", "LicenseRef-mine"),
        ("mit or apache-2.0", "MIT OR Apache-2.0"),
        ("(MIT)", "(MIT)"),
    ],
)
def test_a_licence_as_spdx_spells_it(repository, bundle, licence, spelled):
    done = submit(repository, bundle, replace(PRIVATE, licence=licence))
    assert done.submission.licence == spelled
    assert open_submission(done.path).submission == done.submission


def session(licence):
    """The laboratory's session under another licence."""
    value = json.loads((ROOT / "workloads" / "netops-lab" / "session-7k.json").read_text(encoding="utf-8"))
    return Session.model_validate_json(json.dumps(value | {"licence": licence}))


@pytest.mark.parametrize(
    ("licence", "given", "told"),
    [
        ("private", None, "may be published"),
        ("private", "CC0-1.0", "may be published"),
        ("MIT", "CC0-1.0", "own licence is MIT"),
        ("nonsense", None, "no SPDX licence"),
    ],
)
def test_a_session_at_hand_says_its_licence(bundle, monkeypatch, licence, given, told):
    monkeypatch.setattr("suite.submission.preflight.find_session", lambda *_: session(licence))
    with pytest.raises(InvalidInput, match=told):
        checked(bundle, replace(PUBLIC, licence=given))


def test_a_session_at_hand_gives_its_licence_and_is_looked_through(bundle, monkeypatch):
    monkeypatch.setattr("suite.submission.preflight.find_session", lambda *_: session("Apache-2.0"))
    monkeypatch.setattr("suite.bundle.verify.find_session", lambda *_: None)
    found = checked(bundle, replace(PUBLIC, licence=None))
    assert found.licence == "Apache-2.0"
    assert not any("session" in warning for warning in found.warnings)


def test_a_bundle_that_does_not_hold_is_refused(bundle):
    (bundle / "engine.log").write_text("another")
    with pytest.raises(VerificationFailed, match="SHA-256"):
        checked(bundle, PUBLIC)


def test_suspicions_are_refused_until_they_were_looked_at(world):
    token = "ghp_" + "a1B2" * 9
    parts = world.parts("leaky")
    parts = replace(parts, manifest_yaml=f"# {token}\n".encode() + parts.manifest_yaml, private=Private())
    leaky = write_bundle(replace(parts, engine_log=""), results=world.results)
    with pytest.raises(InvalidInput, match="look like secrets") as caught:
        checked(leaky, PUBLIC)
    assert token not in str(caught.value)
    (line,) = [line for line in caught.value.message.splitlines() if "GitHub token" in line]
    assert checked(leaky, replace(PUBLIC, reviewed=frozenset({line.split()[0]}))).licence == "CC-BY-4.0"
    # A private one publishes none of its text.
    assert checked(leaky, PRIVATE).warnings == ()


def test_the_owner_is_told_what_was_not_done(world, bundle):
    told = "\n".join(checked(bundle, PUBLIC).warnings)
    assert "session is not at hand" in told
    assert "not recomputed" in told
    assert "nobody can recompute" in told
    assert "not recomputed" not in "\n".join(checked(bundle, PUBLIC, captures=world.captures).warnings)


def test_a_commitment_belongs_to_the_bundle(repository, world, bundle):
    from suite.capture.store import open_capture
    from suite.evidence.commitment import commit
    from suite.score.ledger import read_ledger

    opened = open_bundle(bundle)
    sides = [
        open_capture(world.captures / lock.capture_digest / "start-0")
        for lock in (opened.lock("reference-lock.json"), opened.lock())
    ]
    commitment, _ = commit(opened, read_ledger(bundle / "ledger.parquet"), *sides)
    path = repository.root / "commitment.json"
    path.write_bytes(commitment.to_bytes())
    done = submit(repository, bundle, replace(PUBLIC, commitment=path))
    assert (done.submission.commitment.root, done.submission.commitment.leaves) == (commitment.root, 11)
    assert open_submission(done.path).submission == done.submission
    value = json.loads(path.read_bytes()) | {"record_sha256": "a" * 64}
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="not a commitment"):
        checked(bundle, replace(PUBLIC, commitment=path))
    with pytest.raises(InvalidInput, match="cannot be read"):
        checked(bundle, replace(PUBLIC, commitment=repository.root / "absent.json"))


def test_what_intake_refuses_is_not_written(repository, bundle):
    ours = repository.root / "copy" / bundle.parent.name / bundle.name
    shutil.copytree(bundle, ours)
    future = datetime(2999, 1, 1, tzinfo=UTC)
    with pytest.raises(VerificationFailed):
        write_submission(
            checked(ours, PUBLIC),
            PUBLIC,
            key=None,
            owner_key=None,
            agree=lambda *_: None,
            now=future,
            out=repository.root / "out",
        )
    assert not (repository.root / "out").exists()


def test_a_full_disk_leaves_nothing(repository, bundle, monkeypatch):
    import errno

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("suite.submission.write.shutil.copyfile", full)
    with pytest.raises(MissingPrerequisite, match="no space left"):
        submit(repository, bundle, out=repository.root / "out")
    assert not (repository.root / "out").exists()


def test_one_that_is_signed_afterwards_is_not_taken_in(repository, bundle):
    done = submit(repository, bundle, by=None)
    sign_folder(done.path, repository.key("late"), kind="submission")
    report = take_in(done.path, results=None)
    assert [finding.code for finding in report.findings] == ["other-submitter"]
