"""Packs of both sides, from which another machine recomputes the ledger without an engine."""

import json
import shutil

import pytest
from click.testing import CliRunner

from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.cli.verify import verify
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.evidence.pack import pack_evidence
from suite.evidence.rows import replay_evidence
from suite.evidence.store import evidence_store, fetch_evidence
from suite.files import sha256_file
from suite.reference.store import stored_references
from suite.signing.keys import new_key
from tests.bundle.test_verify import forge_ledger
from tests.evidence.world import HiddenWorld
from tests.reference.server import serve


@pytest.fixture(params=["hidden", "logits"])
def codec(request):
    return request.param


@pytest.fixture
def world(tmp_path):
    return HiddenWorld(root=tmp_path / "maker")


@pytest.fixture
def checker(tmp_path, monkeypatch):
    """The state folder of another machine, on which there is no torch."""
    home = tmp_path / "checker"
    home.mkdir()
    monkeypatch.setenv("SUITE_HOME", str(home))
    monkeypatch.delenv("SUITE_VLLM_PYTHON", raising=False)
    monkeypatch.chdir(home)
    return home


def packed(world, bundle, tmp_path):
    return pack_evidence(open_bundle(bundle), captures=world.captures, out=tmp_path / "packs", licence="CC0-1.0")


def run(*arguments):
    return CliRunner().invoke(verify, [str(argument) for argument in arguments])


def test_packs_have_the_hashes_that_were_said_and_are_not_written_over(world, tmp_path):
    bundle = world.bundle()
    made = packed(world, bundle, tmp_path)
    assert [item.side for item in made] == ["reference", "candidate"]
    assert all((sha256_file(m.path), m.path.stat().st_size) == (m.sha256, m.size_bytes) for m in made)
    with pytest.raises(InvalidInput, match="such a file already"):
        packed(world, bundle, tmp_path)


def test_another_machine_recomputes_the_ledger(world, checker, codec, tmp_path):
    bundle = world.bundle(codec=codec)
    made = packed(world, bundle, tmp_path)
    done = run(bundle, "--full", "--evidence", made[0].path, "--evidence", made[1].path)
    assert done.exit_code == 0, done.output
    assert "all 29 probes computed again from both captures" in done.output
    again = run(bundle, "--full", "--json")
    assert again.exit_code == 0, "what was fetched is kept"
    assert json.loads(again.output)["reports"][0]["checks"][-1]["outcome"] == "passed"


def test_evidence_is_never_taken_as_a_reference(world, checker, tmp_path):
    fetch_evidence([str(item.path) for item in packed(world, world.bundle(), tmp_path)], home=checker)
    assert list(stored_references(checker / "captures")) == []
    assert len(list(stored_references(evidence_store(checker)))) == 2


def test_a_url_is_fetched(world, checker, tmp_path):
    bundle = world.bundle()
    made = packed(world, bundle, tmp_path)
    with serve(made[0].path.read_bytes()) as site:
        done = run(bundle, "--full", "--evidence", site.url, "--evidence", made[1].path)
    assert done.exit_code == 0, done.output


def test_without_both_sides_a_full_verification_is_no_pass(world, checker, tmp_path):
    bundle = world.bundle()
    made = packed(world, bundle, tmp_path)
    for options in ((), ("--evidence", made[0].path)):
        done = run(bundle, "--full", *options)
        assert isinstance(done.exception, MissingPrerequisite)
        assert "evidence not at hand" in str(done.exception)


def test_a_forged_ledger_is_found_by_the_packs(world, checker, tmp_path):
    bundle = world.bundle()
    made = packed(world, bundle, tmp_path)
    fetch_evidence([str(item.path) for item in made], home=checker)
    forge_ledger(bundle, kl_ref_cand={4: 40.0})
    done = run(bundle, "--full")
    assert isinstance(done.exception, VerificationFailed)
    assert "kl_ref_cand is 40.0, the evidence gives" in str(done.exception)


def test_rows_that_another_processor_rounds_are_counted_and_not_passed_off_as_equal(world, checker, tmp_path):
    """The rows that were hashed are not those that NumPy gives here."""
    import numpy as np

    from suite.evidence.numpy_head import NumpyHead

    bundle = world.bundle()
    fetch_evidence([str(item.path) for item in packed(world, bundle, tmp_path)], home=checker)
    original = NumpyHead.logits

    def otherwise(self, hidden):
        rows = original(self, hidden)
        rows[:, 100] += np.uint16(1)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyHead, "logits", otherwise)
        report = verify_bundle(bundle, evidence=evidence_store(checker), replay=replay_evidence())
    assert report.failure is None
    detail = report.checks[-1].detail
    assert "reference 0 rows bit for bit and 29 near" in detail
    assert "had another best id when replayed" in detail


def test_rows_beyond_the_tolerance_are_refused(world, checker, tmp_path):
    from suite.evidence.numpy_head import NumpyHead

    bundle = world.bundle()
    fetch_evidence([str(item.path) for item in packed(world, bundle, tmp_path)], home=checker)
    original = NumpyHead.logits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyHead, "logits", lambda self, hidden: original(self, hidden[:, ::-1]))
        failure = verify_bundle(bundle, evidence=evidence_store(checker), replay=replay_evidence()).failure
    assert failure is not None
    assert "is not near the captured one" in failure.detail


def test_a_pack_larger_than_was_said_is_refused_before_it_is_fetched(world, checker, tmp_path):
    made = packed(world, world.bundle(), tmp_path)
    with pytest.raises(VerificationFailed, match="10 were said"):
        fetch_evidence([str(made[0].path)], home=checker, most_bytes=10)
    assert not evidence_store(checker).exists()


def test_a_pass_can_be_attested(world, checker, tmp_path):
    bundle = world.bundle()
    made = packed(world, bundle, tmp_path)
    new_key(tmp_path / "key.pem")
    results = tmp_path / "results"
    given = ("--full", "--evidence", made[0].path, "--evidence", made[1].path)
    done = run(bundle, *given, "--key", tmp_path / "key.pem", "--results", results)
    assert done.exit_code == 0, done.output
    (record,) = results.glob("attestations/*/attestation.json")
    detail = json.loads(record.read_text())["detail"]
    assert (detail["method"], detail["rows"], detail["drawn"]) == ("whole", 29, 29)


@pytest.mark.parametrize("option", [("--evidence", "x"), ("--key", "k"), ("--checkpoint", "c")])
def test_options_of_a_full_verification_need_it(world, checker, option):
    assert isinstance(run(world.bundle(), *option).exception, InvalidInput)


def test_a_submission_names_its_packs(world, checker, tmp_path, monkeypatch):
    from suite.evidence import named, store
    from suite.submission.schema import EvidencePack

    bundle = world.bundle()
    made = packed(world, bundle, tmp_path)
    packs = [EvidencePack(url=f"https://h/{m.side}", sha256=m.sha256, size_bytes=m.size_bytes) for m in made]
    monkeypatch.setattr(named, "named_evidence", lambda path: tuple(packs))
    asked = []
    places = {pack.url: str(m.path) for pack, m in zip(packs, made, strict=True)}

    def fetch(sources, **options):
        asked.extend(sources)
        return fetch_evidence([places[source] for source in sources], **options)

    monkeypatch.setattr(store, "fetch_evidence", fetch)
    done = run(bundle, "--full")
    assert done.exit_code == 0, done.output
    assert asked == [pack.url for pack in packs]


def test_a_capture_that_is_gone_cannot_be_packed(world, tmp_path):
    bundle = world.bundle()
    shutil.rmtree(world.captures)
    with pytest.raises(MissingPrerequisite, match="no capture of this lock"):
        packed(world, bundle, tmp_path)
