"""What becomes of a run: numbers, verdict, exit code and record. The stack's own part is played by a stored bundle."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from suite.bundle.find import find_bundles
from suite.bundle.read import open_bundle
from suite.cli.reproduce import reproduce
from suite.errors import InvalidInput, VerificationFailed
from suite.reproduce import proposal, run
from suite.results.attestation import read_attestations
from suite.results.tier import tier_of
from suite.score.ledger import read_ledger
from suite.signing import new_key, sign_folder, verify_folder
from tests.bundle.test_verify import forge_ledger, reseal
from tests.intake.here import look
from tests.manifest.samples import ROOT


@pytest.fixture
def published(tmp_path):
    """A published bundle, signed by its author."""
    folder = next(path for path in find_bundles(ROOT / "results") if path.parent.name == "h200-smollm2-kv-fp8-e4m3")
    copy = Path(shutil.copytree(folder, tmp_path / "theirs" / folder.parent.name / folder.name))
    sign_folder(copy, new_key(tmp_path / "author"), kind="result")
    return copy


@pytest.fixture
def machine(published, tmp_path, monkeypatch):
    """A machine whose every run gives what was published; it notes how many starts were asked for."""
    starts = []
    original = next(path for path in find_bundles(ROOT / "results") if path.parent.name == published.parent.name)
    own = Path(shutil.copytree(original, tmp_path / "own" / original.parent.name / original.name))

    def prepare(manifests, **_):
        locks = [open_bundle(own).lock(name) for name in ("lock.json", "reference-lock.json")]
        stacks = [SimpleNamespace(lock=lock, manifest=SimpleNamespace(role="candidate")) for lock in locks]
        reference = SimpleNamespace(lock=locks[1], stack=stacks[1])
        return SimpleNamespace(
            stacks=stacks[:1], references={"r": reference}, all_stacks=stacks, require_room=lambda options: None
        )

    def measured(prepared, proposal, results, options, observer_for, cancelled):
        starts.append(options.repeats)
        return open_bundle(own)

    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("suite.intake.intake.take_in", look)
    # A namespace is the runtime's part, and tested there.
    monkeypatch.setattr(proposal, "why_not_cut_off", lambda: "not tried")
    monkeypatch.setattr(run, "prepare", prepare)
    monkeypatch.setattr(run, "_of_starts", lambda prepared, starts: prepared)
    monkeypatch.setattr(run, "_measured", measured)
    return SimpleNamespace(own=own, starts=starts)


def call(*arguments):
    return CliRunner().invoke(reproduce, [str(argument) for argument in (*arguments, "--yes", "--quiet")])


def test_identical_rows_need_one_start_and_lift_the_tier(machine, published, tmp_path):
    checker = new_key(tmp_path / "checker")
    results = tmp_path / "results"
    done = call(published, "--key", tmp_path / "checker", "--results", results)
    assert done.exit_code == 0, done.output
    assert machine.starts == [1]
    assert "candidate  7,177 of 7,177    0" in done.stdout
    assert "identical: all 7,177 rows of both sides" in done.stdout
    assert "hardware: the same; reference: run here; network: NOT CUT OFF" in done.stdout
    [attested] = read_attestations(results)
    detail = attested.attestation.detail
    assert (detail.n, detail.identical_rows, detail.verdict, detail.positions) == (7177, 7177, "identical", "all")
    assert attested.bundle.name == machine.own.name
    record, signers = open_bundle(published).record.record_sha256, verify_folder(published).key_ids
    assert tier_of(record, signers, [attested], [checker.key_id]) == "reproduced"
    assert tier_of(record, signers, [attested], []) == "self-reported"

    again = call(published, "--key", tmp_path / "checker", "--results", results)
    assert isinstance(again.exception, InvalidInput)
    assert "has attested a reproduction of this bundle already" in str(again.exception)
    assert machine.starts == [1]


def test_its_author_is_told_before_anything_runs(machine, published, tmp_path):
    done = call(published, "--key", tmp_path / "author", "--results", tmp_path / "results")
    assert isinstance(done.exception, InvalidInput)
    assert "this key signed the bundle" in str(done.exception)
    assert machine.starts == []
    assert not (tmp_path / "results").exists()


def test_without_a_key_no_record_is_written(machine, published, tmp_path):
    done = call(published, "--results", tmp_path / "results", "--json")
    found = json.loads(done.stdout)
    assert (found["verdict"], found["record"], found["differences"]) == ("identical", None, [])
    assert found["own_record_sha256"] == open_bundle(machine.own).record.record_sha256
    assert not (tmp_path / "results").exists()


def test_a_bundle_that_changes_during_the_run_is_not_compared(machine, published, tmp_path, monkeypatch):
    measured = run._measured

    def while_running(*arguments):
        with (published / "repeats.json").open("ab") as file:
            file.write(b" ")
        return measured(*arguments)

    monkeypatch.setattr(run, "_measured", while_running)
    done = call(published, "--key", tmp_path / "author", "--results", tmp_path / "results")
    assert isinstance(done.exception, InvalidInput)  # the author's own key
    new_key(tmp_path / "checker")
    done = call(published, "--key", tmp_path / "checker", "--results", tmp_path / "results")
    assert isinstance(done.exception, VerificationFailed)
    assert "not the file that the record names" in str(done.exception)
    assert not (tmp_path / "results").exists()


def test_a_tampered_bundle_differs_and_the_record_lifts_nothing(machine, published, tmp_path):
    checker = new_key(tmp_path / "checker")
    ledger = read_ledger(published / "ledger.parquet").columns
    rows = [int(row) for row in np.flatnonzero(ledger["kl_ref_cand"] > 1e-3)[:5]]
    forge_ledger(published, kl_ref_cand={row: float(ledger["kl_ref_cand"][row]) + 1e-3 for row in rows})
    (published / "statement.dsse.json").unlink()
    sign_folder(published, new_key(tmp_path / "forger"), kind="result")
    done = call(published, "--key", tmp_path / "checker", "--results", tmp_path / "results")
    assert isinstance(done.exception, VerificationFailed)
    assert "not reproduced on the same hardware: the rows are the same, the bundle's numbers are not" in str(
        done.exception
    )
    assert f"position {ledger['position'][rows[0]]}: kl_ref_cand is" in done.stdout
    assert "at 5 positions the rows are the same and the bundle's numbers are not" in done.stdout
    assert machine.starts == [1]  # no repeat of the stack could explain it
    [attested] = read_attestations(tmp_path / "results")
    detail = attested.attestation.detail
    assert (detail.verdict, detail.identical_rows, detail.flips) == ("differs", 7172, 0)
    record = open_bundle(published).record.record_sha256
    assert tier_of(record, verify_folder(published).key_ids, [attested], [checker.key_id]) == "self-reported"


def test_other_rows_are_started_again_for_the_floor_and_other_hardware_is_named(machine, published, tmp_path):
    ledger = read_ledger(machine.own / "ledger.parquet").columns
    row = int(np.flatnonzero(ledger["kl_ref_cand"] > 1e-3)[0])
    forge_ledger(machine.own, cand_row_sha256={row: bytes(32)})
    receipt = json.loads((machine.own / "receipt.json").read_bytes())
    receipt["ranks"][0]["device"] |= {"name": "NVIDIA H100", "driver": "1.2"}
    (machine.own / "receipt.json").write_text(json.dumps(receipt))
    reseal(machine.own)
    done = call(published)
    assert isinstance(done.exception, VerificationFailed)
    assert machine.starts == [1, 3]
    assert "not reproduced on other hardware" in str(done.exception)
    assert "candidate  7,176 of 7,177    0" in done.stdout
    assert "device name: 'NVIDIA H200' there, 'NVIDIA H100' here" in done.stdout
    assert "1 rows and 0 best tokens of the candidate differ" in done.stdout
