"""Hidden captures scored inside the stack give the ledger that the host makes of their replayed rows."""

import random
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from suite.capture.store import open_capture
from suite.capture.tensors import open_tensors, write_tensors
from suite.errors import InvalidInput, VerificationFailed
from suite.files import read_json, sha256_file
from suite.observer import SilentObserver
from suite.run.captures import side_request, streamed_name
from suite.run.replayed import ReplayedRows
from suite.run.scoring import ScoringStack, score_in_stack, score_pair
from suite.runtime.process import ProcessRuntime
from suite.score.check import check_ledger
from suite.score.labels import Labels
from suite.score.ledger import COLUMNS, read_ledger, write_ledger
from suite.score.numpy_kernel import NumpyKernel
from suite.score.scorer import ledger_facts, write_scores
from tests.agent_stack import Stack, chunk_hashes, fake_job, leftovers, write_tokens
from tests.score.session import rendered

pytestmark = pytest.mark.vllm

IDS = [random.Random(7).randrange(90) for _ in range(150)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory, vllm_python) -> Stack:
    base = tmp_path_factory.mktemp("scoring")
    return Stack(vllm_python, base / "home", base / "model", fake=True)


@pytest.fixture(scope="module")
def captures(stack, tmp_path_factory):
    """A reference, and a candidate that differs a little and is cut into other chunks."""
    base = tmp_path_factory.mktemp("captures")
    tokens = write_tokens(base / "inputs", IDS)
    reference = stack.call(base / "reference", tokens, fake_job(tokens))
    candidate = stack.call(
        base / "candidate", tokens, fake_job(tokens, chunk_rows=40), environment={"FAKE_SHIFT": "0.25"}
    )
    return reference, candidate


@pytest.fixture(scope="module")
def labels():
    return Labels.of(rendered(IDS))


@pytest.fixture
def scoring(stack) -> ScoringStack:
    return ScoringStack(
        runtime=ProcessRuntime(stack.python, home=stack.home),
        environment=stack.environment({}),
        heads=stack.heads,
        threads=1,
        device="cpu",
    )


def replayed(capture, scoring):
    fields = {name: getattr(scoring, name) for name in ("runtime", "environment", "heads", "threads", "device")}
    return ReplayedRows(capture=capture, **fields)


def test_the_ledger_is_that_of_the_host(captures, scoring, labels, tmp_path):
    reference, candidate = captures
    assert reference.index.codec == candidate.index.codec == "hidden"
    blocks = score_in_stack(scoring, reference, candidate, labels=labels, observer=SilentObserver())
    write_ledger(tmp_path / "stack.parquet", blocks, ledger_facts(reference, candidate))
    sides = [replayed(capture, scoring) for capture in captures]
    write_scores(tmp_path / "host.parquet", *sides, labels=labels, kernel=NumpyKernel())
    found, expected = read_ledger(tmp_path / "stack.parquet"), read_ledger(tmp_path / "host.parquet")
    assert found.facts == expected.facts
    assert expected.columns["flip"].any()
    for name in COLUMNS:
        if found.columns[name].dtype == np.float64:
            np.testing.assert_allclose(found.columns[name], expected.columns[name], rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(found.columns[name], expected.columns[name], err_msg=name)
    check_ledger(found)


def test_a_capture_against_itself_differs_by_nothing(captures, scoring, labels):
    reference, _ = captures
    blocks = list(score_in_stack(scoring, reference, reference, labels=labels, observer=SilentObserver()))
    for name in ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation"):
        assert not np.concatenate([block[name] for block in blocks]).any()


def changed_copy(capture, folder, change):
    """The capture with one chunk's tensors changed, its index corrected."""
    shutil.copytree(capture.folder, folder)
    entry = capture.index.chunks[1]
    chunk = open_tensors(folder / entry.file)
    tensors = {name: chunk.read(name).copy() for name in chunk.tensors}
    change(tensors)
    write_tensors(folder / entry.file, tensors)
    opened = open_capture(folder)
    entries = list(opened.index.chunks)
    entries[1] = entries[1].model_copy(update={"sha256": sha256_file(folder / entry.file)})
    return replace(opened, index=opened.index.model_copy(update={"chunks": tuple(entries)}))


@pytest.mark.parametrize("name", ["rows", "top_logits", "logsumexp"])
def test_a_row_that_is_not_the_captured_one_is_refused(captures, scoring, labels, tmp_path, name):
    reference, candidate = captures

    def change(tensors):
        if name == "logsumexp":
            tensors[name][3] += 1e-9
        elif name == "top_logits":
            tensors[name][3, 63] ^= 1
        else:
            tensors[name][3, 0] ^= 0x80

    broken = changed_copy(candidate, tmp_path / "broken", change)
    position = broken.probes().positions[candidate.index.chunks[0].num_rows + 3]
    blocks = score_in_stack(scoring, reference, broken, labels=labels, observer=SilentObserver())
    with pytest.raises(VerificationFailed, match=f"1 of .* the first at position {position}"):
        next(blocks)


def test_captures_of_other_positions_are_refused(captures, scoring, labels, stack, tmp_path):
    reference, _ = captures
    tokens = write_tokens(tmp_path / "inputs", IDS)
    other = stack.call(tmp_path / "other", tokens, fake_job(tokens, stride=3))
    with pytest.raises(InvalidInput):
        next(score_in_stack(scoring, reference, other, labels=labels, observer=SilentObserver()))


def test_the_request_leaves_nothing_behind_and_says_what_it_took(captures, scoring, labels, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = {}

    class Watching:
        def call(self, call, observer):
            scoring.runtime.call(call, observer)
            seen.update(read_json(call.folders["out"].host / "score.json"))

    next(score_in_stack(replace(scoring, runtime=Watching()), *captures, labels=labels, observer=SilentObserver()))
    assert seen["rows"] == captures[0].index.num_rows
    assert seen["rows_per_product"] == [8, 8]
    assert not list(tmp_path.glob("suite-score-*"))


class Failing:
    """A GPU stack whose rows cannot be recomputed there."""

    def call(self, call, observer):
        assert call.command == "score"
        raise VerificationFailed("other rows")


def test_where_the_gpu_cannot_score_the_host_does(captures, scoring, labels, tmp_path, monkeypatch):
    reference, candidate = captures
    notes = []
    observer = SilentObserver()
    monkeypatch.setattr(SilentObserver, "note", lambda self, message: notes.append(message))
    monkeypatch.setattr("suite.run.scoring.stack_environment", lambda lock: {})
    monkeypatch.setattr("suite.run.scoring.replay_in", lambda stack, store: lambda c: replayed(c, scoring))
    gpu = SimpleNamespace(runtime=Failing(), lock=SimpleNamespace(hardware=SimpleNamespace(kind="cuda", threads=None)))
    rows = score_pair(
        tmp_path / "ledger.parquet",
        reference,
        candidate,
        stack=gpu,
        store=SimpleNamespace(heads=scoring.heads),
        replay_reference=lambda capture: replayed(capture, scoring),
        labels=labels,
        observer=observer,
    )
    assert rows == reference.index.num_rows == read_ledger(tmp_path / "ledger.parquet").num_rows
    assert "other rows" in notes[0]


def streamed(stack, reference, folder, *, score_heads=None, **changes):
    """The candidate of `captures` once more, scored against `reference` while its engine runs; and what was noted."""
    tokens = write_tokens(folder / "inputs", IDS)
    out = folder / "candidate"
    score = side_request(reference, str(reference.folder), score_heads or str(stack.heads))
    score["columns"] = str(out / streamed_name(reference))
    notes = []
    observer = SimpleNamespace(**{name: lambda *a, **k: None for name in ("phase", "advance")}, note=notes.append)
    request = fake_job(tokens, score=score, **{"chunk_rows": 40} | changes)
    capture = stack.call(out, tokens, request, environment={"FAKE_SHIFT": "0.25"}, observer=observer)
    return capture, notes


def test_scores_made_while_the_engine_runs_are_those_made_afterwards(captures, stack, scoring, labels, tmp_path):
    reference, candidate = captures
    capture, _ = streamed(stack, reference, tmp_path)
    assert chunk_hashes(capture) == chunk_hashes(candidate)
    assert leftovers(capture.folder) == []
    assert not (capture.folder / ".streamed.npz").exists()
    cpu = SimpleNamespace(runtime=None, lock=SimpleNamespace(hardware=SimpleNamespace(kind="cpu", threads=1)))
    score_pair(
        tmp_path / "streamed.parquet",
        reference,
        capture,
        stack=cpu,
        store=SimpleNamespace(heads=scoring.heads),
        replay_reference=None,
        labels=labels,
        observer=SilentObserver(),
    )
    blocks = score_in_stack(scoring, reference, candidate, labels=labels, observer=SilentObserver())
    write_ledger(tmp_path / "after.parquet", blocks, ledger_facts(reference, candidate))
    found, expected = read_ledger(tmp_path / "streamed.parquet"), read_ledger(tmp_path / "after.parquet")
    assert expected.columns["flip"].any()
    for name in COLUMNS:
        if found.columns[name].dtype == np.float64:
            np.testing.assert_allclose(found.columns[name], expected.columns[name], rtol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(found.columns[name], expected.columns[name], err_msg=name)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stride": 3}, "not captured at the candidate's positions"),
        ({"codec": "logits"}, "only a whole prefill capture of hidden states"),
    ],
)
def test_what_cannot_be_scored_while_the_engine_runs_is_captured_all_the_same(captures, stack, tmp_path, changes, told):
    capture, notes = streamed(stack, captures[0], tmp_path, **changes)
    assert capture.index.num_rows
    assert any(told in note for note in notes)
    assert not list(capture.folder.glob("*.npz"))


@pytest.mark.parametrize(("harm", "told"), [("changed", "the stored head was changed"), ("removed", "No such file")])
def test_a_reference_whose_head_cannot_be_loaded_costs_no_capture(captures, stack, tmp_path, harm, told):
    reference, candidate = captures
    heads = tmp_path / "heads"
    shutil.copytree(stack.heads, heads)
    for path in heads.iterdir():
        if harm == "removed":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    capture, notes = streamed(stack, reference, tmp_path, score_heads=str(heads))
    assert chunk_hashes(capture) == chunk_hashes(candidate)
    assert any(told in note for note in notes)


def test_a_streamed_row_that_is_not_the_captured_one_is_not_believed(in_stack):
    """The settling compares what was scored with the fingerprints, row by row."""
    code = """
import json, numpy as np
from suite.agent.scoring.streaming import settle
streamed = {"largest": np.array([5.0, 5.0, 5.0, 5.0]), "logsumexp": np.array([6.0, 6.0, 6.0, np.nan]),
            "cand_top1": np.array([3, 3, 3, -1]), "finite_cand": np.array([True, True, True, False])}
stored = {"top_ids": np.array([[3, 1], [3, 1], [4, 3], [0, 1]]), "largest": np.array([5.0, 5.0, 5.0, np.nan]),
          "logsumexp": np.array([6.0, 6.0 + 1e-9, 6.0, np.nan])}
print(json.dumps(settle(streamed, stored)["candidate_captured"].tolist()))
"""
    assert in_stack(code) == [True, False, False, True]
