"""Captured rows against what vLLM itself says of them, and one model runner against the other, bit for bit."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.agent.oracle import CHUNK, NEW, PROMPT
from tests.agent_stack import CPU_ENVIRONMENT, FAKE_TRITON, ROOT

pytestmark = pytest.mark.vllm

POSITIONS = 90


def ask(folder: Path, python: Path, model: Path, ids: list[int], *, oracle: bool, **environment: str) -> dict:
    """One engine; see `oracle.py`."""
    np.save(folder / "text.npy", np.array(ids[:POSITIONS], dtype=np.int32))
    path = environment.pop("PYTHONPATH", "")
    done = subprocess.run(
        [str(python), "-P", str(Path(__file__).parent / "oracle.py"), str(folder), str(model), str(int(oracle))],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=900,
        env=os.environ
        | CPU_ENVIRONMENT
        | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), path]))}
        | environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def v1(tmp_path_factory, vllm_python, smollm2, text_ids) -> dict:
    return ask(tmp_path_factory.mktemp("v1"), vllm_python, smollm2, text_ids, oracle=True, VLLM_USE_V2_MODEL_RUNNER="0")


@pytest.fixture(scope="module")
def v2(tmp_path_factory, vllm_python, smollm2, text_ids) -> dict:
    return ask(
        tmp_path_factory.mktemp("v2"),
        vllm_python,
        smollm2,
        text_ids,
        oracle=False,
        VLLM_USE_V2_MODEL_RUNNER="1",
        TRITON_INTERPRET="1",
        PYTHONPATH=str(FAKE_TRITON),
    )


def test_prefill_rows_are_the_raw_prompt_logits_of_vllm_at_every_position(v1):
    assert v1["steps"] == [[0, CHUNK], [CHUNK, CHUNK], [2 * CHUNK, POSITIONS - 2 * CHUNK]]
    assert len(v1["prefill"]) == POSITIONS - 1
    assert v1["prompt_rows_as_vllm_says"] == POSITIONS - 1


def test_forced_decode_rows_are_the_raw_logits_of_a_free_run_that_chose_the_same_tokens(v1):
    assert sorted(map(int, v1["decode"])) == list(range(PROMPT, PROMPT + NEW - 1))
    assert v1["decode_steps"] == [[p, 1] for p in range(PROMPT, PROMPT + NEW - 1)]
    assert v1["decode_rows_as_vllm_says"] == NEW - 1


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_each_step_is_forced_to_the_recorded_token(runner, request, text_ids):
    seen = request.getfixturevalue(runner)
    assert seen["forced_answer_is_the_text"]
    own, text = seen["greedy"], text_ids[PROMPT : PROMPT + NEW]
    parting = next(i for i in range(NEW) if own[i] != text[i])
    assert parting < NEW - 4
    for i in range(NEW - 1):  # rows are the same as long as the histories are
        name = str(PROMPT + i)
        assert (seen["forced"][name] == seen["decode"][name]) is (i < parting), name


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_the_decode_path_computes_the_positions_and_histories_of_prefill(runner, request, record_property):
    seen = request.getfixturevalue(runner)
    assert seen["forced_top1_as_in_prefill"] > NEW // 2
    # By other kernels: how many rows come out the same bit for bit is the processor's affair, from none to all but one.
    record_property("decode rows equal to prefill rows", seen["forced_rows_equal_to_prefill"])


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_hidden_states_give_the_rows_back_on_both_paths(runner, request):
    seen = request.getfixturevalue(runner)
    assert seen["prefill_replayed"] == seen["prefill"]
    assert seen["forced_replayed"] == seen["forced"]


def test_both_model_runners_give_the_same_bits(v1, v2):
    assert v1["runner"] == "vllm.v1.worker.cpu_model_runner.CPUModelRunner"
    assert ".cpu.model_runner." in v2["runner"]
    for name in ("steps", "prefill", "greedy", "decode", "decode_steps", "forced"):
        assert v1[name] == v2[name], name
