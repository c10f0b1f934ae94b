"""The walk of a submitter and a checker, by commands alone."""

import json
import shutil

import pytest
from click.testing import CliRunner

from suite.cli.evidence import evidence
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.signing import new_key, sign_folder
from tests.evidence.world import HiddenWorld


def run(*arguments):
    return CliRunner().invoke(evidence, [str(argument) for argument in arguments])


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A bundle whose captures lie in the local store; the current folder is empty, and there is no torch."""
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SUITE_VLLM_PYTHON", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return HiddenWorld(root=tmp_path / "home").bundle()


def walk(bundle, *, draw=10):
    for arguments in (
        ("commit", bundle, "-q"),
        ("challenge", "commitment.json", "--draw", draw),
        ("answer", bundle, "commitment.json", "challenge.json", "--heads", "heads", "-q"),
    ):
        done = run(*arguments)
        assert done.exit_code == 0, done.output
    return done


CHECK = ("commitment.json", "challenge.json", "answer.safetensors", "-q")


def test_an_honest_walk_ends_with_an_attestation(bundle, tmp_path, monkeypatch):
    answered = walk(bundle)
    assert "give back the session's text" in answered.output
    new_key(tmp_path / "key.pem")
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "checker"))
    done = run("check", bundle, *CHECK, "--heads", "heads", "--key", tmp_path / "key.pem", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["consistent"], said["drawn"], said["rows"]) == (True, 10, 29)
    (record,) = tmp_path.glob("here/results/attestations/*/attestation.json")
    detail = json.loads(record.read_text())["detail"]
    challenge = json.loads((tmp_path / "here" / "challenge.json").read_text())
    assert detail == {
        "method": "drawn",
        "rows": 29,
        "drawn": 10,
        "nonce": challenge["nonce"],
        "root": challenge["root"],
    }


def test_who_signed_the_bundle_does_not_attest_it(bundle, tmp_path, monkeypatch):
    walk(bundle)
    sign_folder(bundle, new_key(tmp_path / "me.pem"), kind="result")
    monkeypatch.setattr("suite.evidence.check.check_answer", lambda *_, **__: pytest.fail("too late"))
    done = run("check", bundle, *CHECK, "--heads", "heads", "--key", tmp_path / "me.pem")
    assert isinstance(done.exception, InvalidInput)
    assert "this key signed the bundle" in str(done.exception)
    assert not (tmp_path / "here" / "results").exists()


def test_it_says_what_holds_in_words(bundle):
    walk(bundle)
    done = run("check", bundle, *CHECK)
    assert "10 of 29 rows are the committed ones and follow from the answer" in done.output


def test_without_the_head_it_says_what_to_get(bundle, tmp_path, monkeypatch):
    walk(bundle)
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "checker"))
    done = run("check", bundle, *CHECK)
    assert isinstance(done.exception, MissingPrerequisite)
    assert "get its file from the submitter" in str(done.exception)


def test_a_second_challenge_is_not_made_over_the_first(bundle):
    walk(bundle)
    done = run("challenge", "commitment.json")
    assert isinstance(done.exception, InvalidInput)
    assert "a challenge is there already" in str(done.exception)


def test_a_challenge_says_what_it_is_worth(bundle):
    run("commit", bundle, "-q")
    done = run("challenge", "commitment.json", "--json")
    said = json.loads(done.stdout)
    assert said["draw"] == 29
    assert said["chances"][0] == {"falsified": 1, "escape_chance": 0.0}
    words = run("challenge", "commitment.json", "--draw", 10, "--out", "other.json").output
    assert "10 of 29 rows drawn" in words
    assert "1 falsified rows escape with a chance of 65.5 %" in words


def test_another_bundle_or_store_cannot_answer(bundle, tmp_path):
    walk(bundle)
    forged = shutil.copytree(bundle, tmp_path / "other" / bundle.parent.name / bundle.name)
    from tests.bundle.test_verify import reseal

    (forged / "engine.log").write_text("another")
    reseal(forged)
    done = run("answer", forged, "commitment.json", "challenge.json", "-q")
    assert isinstance(done.exception, InvalidInput)
    assert "are not what was committed to" in str(done.exception)
    done = run("answer", bundle, "commitment.json", "challenge.json", "-q", "--captures", tmp_path / "none")
    assert isinstance(done.exception, MissingPrerequisite)


def test_an_answer_to_another_challenge_is_refused(bundle):
    walk(bundle)
    run("challenge", "commitment.json", "--draw", 10, "--out", "other.json")
    done = run("check", bundle, "commitment.json", "other.json", "answer.safetensors", "-q")
    assert isinstance(done.exception, VerificationFailed)
    assert "opens other leaves" in str(done.exception)


def test_packs_are_written_and_their_hashes_said(bundle):
    done = run("pack", bundle, "--out", "packs", "--json", "-q")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert {"reference", "candidate"} < said.keys()
    assert len(said["candidate"]["sha256"]) == 64
    assert "SHA-256" in run("pack", bundle, "--out", "more", "-q").output


@pytest.mark.parametrize("name", ["commitment.json", "challenge.json"])
def test_files_that_are_none_are_refused(bundle, tmp_path, name):
    walk(bundle)
    (tmp_path / "here" / name).write_text("{}")
    assert isinstance(run("check", bundle, *CHECK).exception, InvalidInput)


def test_heads_are_not_copied_onto_themselves(bundle, tmp_path):
    walk(bundle)
    store = tmp_path / "home" / "captures" / "heads"
    done = run("answer", bundle, "commitment.json", "challenge.json", "--heads", store, "-q")
    assert isinstance(done.exception, InvalidInput)
    assert "the store's own folder" in str(done.exception)
