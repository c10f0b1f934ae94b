"""What replays hidden states that came from elsewhere: torch where there is an interpreter that has it, else NumPy."""

import shutil

import pytest

from suite.bundle.evidence import find_capture
from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.evidence.challenge import make_challenge
from suite.evidence.check import check_answer
from suite.evidence.numpy_head import NumpyRows
from suite.evidence.pack import pack_evidence
from suite.evidence.rows import replay_anywhere, replay_evidence
from suite.evidence.store import evidence_store, fetch_evidence
from suite.run.replayed import ReplayedRows
from tests.evidence.test_answer import NONCE, Scene
from tests.evidence.world import HiddenWorld


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return HiddenWorld(root=tmp_path).bundle()


def reference_of(bundle, captures):
    opened = open_bundle(bundle)
    return find_capture(captures, opened.record.evidence.reference), opened.lock("reference-lock.json")


def test_without_an_interpreter_numpy_replays(bundle, tmp_path, monkeypatch):
    monkeypatch.delenv("SUITE_VLLM_PYTHON", raising=False)
    capture, lock = reference_of(bundle, tmp_path / "captures")
    assert isinstance(replay_anywhere(capture, lock, heads=tmp_path / "captures" / "heads"), NumpyRows)


@pytest.mark.parametrize(("kind", "device"), [("cpu", "cpu"), ("cuda", "cpu")])
def test_a_cards_capture_is_replayed_on_the_processor_where_there_is_no_card(
    bundle, tmp_path, monkeypatch, kind, device
):
    import sys

    from suite.evidence import rows

    monkeypatch.setenv("SUITE_VLLM_PYTHON", sys.executable)
    monkeypatch.setattr(rows, "_GPU", tmp_path / "no such device")
    capture, lock = reference_of(bundle, tmp_path / "captures")
    lock = lock.model_copy(update={"hardware": lock.hardware.model_copy(update={"kind": kind})})
    found = replay_anywhere(capture, lock, heads=tmp_path, elsewhere=False)
    assert isinstance(found, ReplayedRows)
    assert (found.device, found.elsewhere) == (device, kind == "cuda")


@pytest.mark.vllm
def test_torch_recomputes_packs_and_answers(bundle, tmp_path, monkeypatch, vllm_python):
    monkeypatch.setenv("SUITE_VLLM_PYTHON", str(vllm_python))
    home = tmp_path / "checker"
    captures = tmp_path / "captures"
    packs = pack_evidence(open_bundle(bundle), captures=captures, out=tmp_path / "packs")
    fetch_evidence([str(pack.path) for pack in packs], home=home)
    report = verify_bundle(bundle, evidence=evidence_store(home), replay=replay_evidence())
    assert report.checks[-1].outcome == "passed", report.checks[-1].detail
    assert report.checks[-1].detail.startswith("all 29 probes computed again")

    scene = Scene(bundle=bundle, captures=captures, answer=tmp_path / "answer", draw=9)
    heads = shutil.copytree(captures / "heads", tmp_path / "heads")
    challenge = make_challenge(scene.commitment, draw=9, nonce=NONCE)
    assert check_answer(open_bundle(bundle), scene.commitment, challenge, scene.answer, heads=(heads,)).drawn == 9
