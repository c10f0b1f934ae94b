import json

import pytest
from click.testing import CliRunner

from suite.bundle.write import write_bundle
from suite.cli.verify import verify
from suite.errors import InvalidInput, VerificationFailed
from suite.signing import new_key, sign_folder
from tests.bundle.world import World


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path))
    return World(root=tmp_path)


def run(*arguments):
    return CliRunner().invoke(verify, [str(argument) for argument in arguments])


def test_the_local_store_is_the_evidence_by_default(world):
    folder = write_bundle(world.parts(), results=world.results)
    done = run(folder)
    assert done.exit_code == 0
    assert "all 11 probes computed again from both captures" in done.output


def test_another_store_can_be_named(world, tmp_path):
    folder = write_bundle(world.parts(), results=world.results)
    done = run(folder, "--captures", tmp_path / "none")
    assert done.exit_code == 0
    assert "evidence not at hand: ledger not recomputed" in done.output


def test_a_failure_is_shown_and_raised_with_exit_code_5(world):
    folder = write_bundle(world.parts(), results=world.results)
    (folder / "engine.log").write_text("nothing happened")
    done = run(folder)
    assert isinstance(done.exception, VerificationFailed)
    assert done.exception.exit_code == 5
    assert "engine.log: its SHA-256 is not the one" in str(done.exception)
    assert "FAIL" in done.output
    assert "rests on the failed check: files" in done.output


def test_a_path_that_is_no_bundle_is_wrong_input_and_nothing_is_verified(world, tmp_path):
    folder = write_bundle(world.parts(), results=world.results)
    nowhere = run(folder, tmp_path / "nowhere")
    assert isinstance(nowhere.exception, InvalidInput)
    assert "nowhere: no such folder" in str(nowhere.exception)
    assert nowhere.output == ""
    (tmp_path / "submission" / "bundle").mkdir(parents=True)
    world.results.joinpath(folder.parent.name).rename(tmp_path / "submission" / "bundle" / folder.parent.name)
    around = run(tmp_path / "submission")
    assert isinstance(around.exception, InvalidInput)
    assert f"the latest below this one is {tmp_path}/submission/bundle/{folder.parent.name}/" in str(around.exception)


def test_json_holds_one_report_per_bundle(world):
    good = write_bundle(world.parts(), results=world.results)
    bad = write_bundle(world.parts("other", kv_cache_dtype="fp8_e5m2"), results=world.results)
    (bad / "repeats.json").unlink()
    done = run(good, bad, "--json")
    reports = json.loads(done.output)["reports"]
    assert [report["verified"] for report in reports] == [True, False]
    assert isinstance(done.exception, VerificationFailed)


def test_a_hidden_capture_without_its_lock_in_the_store_is_not_recomputed(world):
    from dataclasses import replace

    from suite.score.floor import repeat_floor
    from tests.score.session import logits

    head = {"sha256s": ["a" * 64], "scale": 1.0, "soft_cap": None, "has_bias": False}
    parts = world.parts(candidate=logits())
    hidden = world.capture(parts.lock, logits(), codec="hidden", head=head, fingerprint=True)
    parts = replace(parts, candidate=hidden, repeats=repeat_floor([hidden]))
    done = run(write_bundle(parts, results=world.results))
    assert done.exit_code == 0
    assert "the store holds no lock for this capture" in done.output


def test_who_signed_a_bundle_is_told_before_anything_is_recomputed(world, tmp_path, monkeypatch):
    folder = write_bundle(world.parts(), results=world.results)
    sign_folder(folder, new_key(tmp_path / "me"), kind="result")
    monkeypatch.setattr("suite.bundle.verify.verify_bundle", lambda *_, **__: pytest.fail("too late"))
    done = run(folder, "--full", "--key", tmp_path / "me", "--results", tmp_path / "here")
    assert isinstance(done.exception, InvalidInput)
    assert "this key signed the bundle" in str(done.exception)
    assert not (tmp_path / "here").exists()


def test_a_signature_that_does_not_hold_stands_in_the_report_though_a_key_is_given(world, tmp_path):
    folder = write_bundle(world.parts(), results=world.results)
    sign_folder(folder, new_key(tmp_path / "author"), kind="result")
    new_key(tmp_path / "me")
    (folder / "engine.log").write_text("nothing happened")
    done = run(folder, "--full", "--key", tmp_path / "me", "--results", tmp_path / "here")
    assert isinstance(done.exception, VerificationFailed)
    assert "FAIL" in done.output
    assert not (tmp_path / "here").exists()
