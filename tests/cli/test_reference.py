import json

import pytest
from click.testing import CliRunner

from suite.cli.reference import reference
from suite.errors import InvalidInput, MissingPrerequisite, SuiteError, VerificationFailed
from suite.signing import new_key
from tests.reference.checkpoint import capture_of, checkpoint, lock_of
from tests.reference.world import hidden_capture, packed, reference_lock


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*arguments):
    return CliRunner().invoke(reference, [*map(str, arguments)])


def test_pack_warns_that_the_session_becomes_public(home, tmp_path):
    stored = hidden_capture(home, reference_lock(tmp_path))
    result = run("pack", stored.capture.folder, "--out", tmp_path / "p.tar", "--licence", "CC0-1.0")
    assert result.exit_code == 0, result.output
    assert "A pack reveals the session" in result.stderr
    assert "p.tar: 29 rows, " in result.stdout


def test_pack_pull_verify_and_list_agree_on_one_digest(home, tmp_path):
    stored = hidden_capture(home, reference_lock(tmp_path))
    made = json.loads(run("pack", stored.capture.folder, "--out", tmp_path / "p.tar", "--json", "-q").stdout)
    seen = json.loads(run("verify", tmp_path / "p.tar", "--json", "-q").stdout)
    taken = json.loads(run("pull", tmp_path / "p.tar", "--json", "-q").stdout)
    assert made["pack_digest"] == seen["pack_digest"] == taken["pack_digest"]
    assert seen["record"]["capture_digest"] == taken["capture_digest"] == stored.lock.capture_digest
    assert taken["new"]
    assert not json.loads(run("pull", tmp_path / "p.tar", "--json", "-q").stdout)["new"]
    listed = json.loads(run("list", "--json").stdout)["references"]
    assert [(item["name"], item["pulled"]) for item in listed] == [("sample", False), ("sample", True)]
    assert listed[0]["lock_digest"] == stored.lock.digest


def test_list_says_what_is_needed_to_replay(home, tmp_path):
    stored = hidden_capture(home, reference_lock(tmp_path))
    hidden_capture(home, reference_lock(tmp_path, engine__seed=1), codec="logits")
    (tmp_path / "manifests" / "reference.yaml").touch()
    hidden_capture(home, reference_lock(tmp_path, role="band", reference="reference.yaml", engine__seed=2))
    text = run("list").stdout
    assert text.count("\n") == 4
    assert "its head (0.0 MB, here) and an interpreter with torch" in text
    assert "nothing: its rows are stored" in text
    [head] = (home / "captures" / "heads").iterdir()
    head.unlink()
    assert "1 of 1 head files, which are missing" in run("list").stdout
    assert stored.lock.digest[:12] in text


def test_list_of_an_empty_store(home):
    result = run("list")
    assert result.stdout == ""
    assert "no reference in the capture store" in result.stderr


def test_verify_shows_a_strangers_text_as_plain_ascii(home, tmp_path):
    from suite.reference.pack import write_pack

    stored = hidden_capture(home, reference_lock(tmp_path))
    write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / "p.tar", licence="free\u202e\nline")
    assert "licence: free??line" in run("verify", tmp_path / "p.tar", "-q").stdout


def test_errors_carry_their_exit_codes(home, tmp_path):
    broken = packed(tmp_path)
    broken.write_bytes(broken.read_bytes()[:3000])
    for command, source, error in (("pull", broken, VerificationFailed), ("verify", tmp_path / "no.tar", InvalidInput)):
        result = run(command, source, "-q")
        assert isinstance(result.exception, error)
        assert isinstance(result.exception, SuiteError)


def test_pack_leaves_its_head_out_and_signs(home, tmp_path):
    model = checkpoint(tmp_path / "model")
    stored = capture_of(home, lock_of(tmp_path, model))
    new_key(tmp_path / "k")
    out = ("--out", tmp_path / "p.tar", "--key", tmp_path / "k", "-q", "--json")
    absent = run("pack", stored.capture.folder, *out, "--without-head")
    assert isinstance(absent.exception, MissingPrerequisite)
    made = run("pack", stored.capture.folder, *out, "--without-head", "--checkpoint", model)
    assert made.exit_code == 0, (made.output, made.exception)
    told = json.loads(made.stdout)
    for head in (home / "captures" / "heads").iterdir():
        head.unlink()
    taken = run(
        "pull", tmp_path / "p.tar", "--checkpoint", model, "--require-signature", told["signer"], "-q", "--json"
    )
    assert json.loads(taken.stdout)["signers"] == [told["signer"]]
    (tmp_path / "p.tar").unlink()
    again = run("pack", stored.capture.folder, *out)
    assert isinstance(again.exception, InvalidInput)
    assert "statement of another pack" in str(again.exception)
    assert not (tmp_path / "p.tar").exists()
