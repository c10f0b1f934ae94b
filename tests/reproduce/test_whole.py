"""A bundle run again elsewhere with the real engine: drawn positions, bit for bit, and a signed record."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from suite.bundle.read import open_bundle
from suite.cli.reproduce import reproduce as reproduce_command
from suite.cli.run import run as run_command
from suite.intake.intake import take_in
from suite.reproduce.compare import compare
from suite.results.attestation import read_attestations
from suite.results.tier import tier_of
from suite.score.floor import Repeats
from suite.score.ledger import read_ledger
from suite.signing import new_key, sign_folder, verify_folder
from tests.bundle.test_verify import forge_ledger
from tests.reference.test_whole import run
from tests.two_machines import maker, repository, user  # noqa: F401 - fixtures


@pytest.mark.vllm
def test_a_strangers_bundle_is_reproduced_at_drawn_positions(
    repository,  # noqa: F811
    maker,  # noqa: F811
    user,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("SUITE_HOME", str(maker))
    # The same stack again is what its reference is, so that one start of the engine makes both sides.
    manifest = repository / "manifests" / "cpu-again.yaml"
    manifest.write_text("extends: cpu-bf16.yaml\nname: cpu-again\nrole: band\nrepeats: 1\nreference: cpu-bf16.yaml\n")
    made = run(run_command, manifest, "-q", "--json", "--results", tmp_path / "theirs")
    assert made.exit_code == 0, made.output
    bundle = Path(json.loads(made.stdout)["measured"][0]["bundle"])
    author, checker = (new_key(tmp_path / name) for name in ("author", "checker"))
    sign_folder(bundle, author, kind="result")

    monkeypatch.setenv("SUITE_HOME", str(user))
    results = tmp_path / "results"
    count = 24
    done = run(
        reproduce_command, bundle, "--positions", count, "--yes", "-q", "--json",
        "--results", results, "--key", tmp_path / "checker",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["verdict"], found["n"], found["identical"]) == ("identical", count, count)
    assert (found["positions"], found["same_hardware"], found["reference_from"]) == ("drawn", True, "a run here")
    assert found["differences"] == []
    assert "namespace of the kernel without one" in found["network"]

    [attested] = read_attestations(results)
    record = open_bundle(bundle).record.record_sha256
    own = open_bundle(attested.bundle)
    assert attested.attestation.detail.own_record_sha256 == own.record.record_sha256
    take_in(attested.folder, results=None).require_accepted()
    signers = verify_folder(bundle).key_ids
    assert tier_of(record, signers, [attested], [checker.key_id]) == "reproduced"
    # The drawn rows are those of the whole capture, at positions that the own lock records.
    whole, part = (read_ledger(folder / "ledger.parquet").columns for folder in (bundle, own.folder))
    at = np.searchsorted(whole["position"], part["position"])
    assert len(at) == count < len(whole["position"])
    for name in ("position", "ref_row_sha256", "cand_row_sha256", "kl_ref_cand"):
        assert (whole[name][at] == part[name]).all()
    assert sum(b - a for a, b in own.lock().capture.ranges) == count

    forged = Path(shutil.copytree(bundle, tmp_path / "forged" / bundle.parent.name / bundle.name))
    row = int(at[0])
    forge_ledger(forged, nll_cand={row: float(whole["nll_cand"][row]) + 1e-3})
    repeats = [Repeats.model_validate_json(open_bundle(folder).read("repeats.json")) for folder in (forged, own.folder)]
    ledgers = [read_ledger(folder / "ledger.parquet") for folder in (forged, own.folder)]
    result = compare(*ledgers, declared=repeats[0], own=repeats[1])
    assert (result.verdict, result.contradicted, result.n) == ("differs", 1, count)
