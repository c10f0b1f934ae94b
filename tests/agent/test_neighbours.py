"""Captures of one request among several, with the real vLLM: the rows are its own, and every step is shared."""

from pathlib import Path

import numpy as np
import pytest

from suite.errors import RunFailed
from tests.agent_stack import FLOAT32_ENGINE, FLOAT32_EXPECT, Stack, job, write_tokens

pytestmark = pytest.mark.vllm

NUM_TOKENS = 200
# One step holds the prompts of all three requests.
SHARED = {"max_num_seqs": 3, "max_num_batched_tokens": 3 * NUM_TOKENS}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("neighbours")


@pytest.fixture(scope="module")
def stack(base, vllm_python, smollm2) -> Stack:
    return Stack(vllm_python, base / "home", smollm2)


@pytest.fixture(scope="module")
def tokens(base, text_ids) -> Path:
    return write_tokens(base / "inputs", text_ids[:NUM_TOKENS])


def request(tokens, engine, **changes):
    expect = FLOAT32_EXPECT | {"max_num_batched_tokens": engine["max_num_batched_tokens"]}
    return job(tokens, engine=FLOAT32_ENGINE | engine, expect=expect, codec="logits", neighbours=2, **changes)


@pytest.fixture(scope="module")
def beside(stack, base, tokens):
    return stack.call(base / "beside", tokens, request(tokens, SHARED))


def best(capture):
    return np.concatenate([capture.open_chunk(entry).read("top_ids")[:, 0] for entry in capture.index.chunks])


def test_rows_beside_neighbours_are_those_of_the_captured_request(beside, text_ids):
    assert beside.index.steps == ((0, NUM_TOKENS),)
    assert beside.index.num_rows == NUM_TOKENS - 1
    # A neighbour's rows would be another text's: it lacks the first tokens, so they would foretell later ones.
    foretold = [float((best(beside) == text_ids[1 + lag : NUM_TOKENS + lag]).mean()) for lag in range(3)]
    assert foretold[0] > 0.4
    assert max(foretold[1:]) < 0.2


def test_decode_steps_beside_neighbours_are_forced_for_the_captured_request_only(stack, base, tokens, beside):
    ranges = [[80, 100], [170, 190]]
    decode = stack.call(base / "decode", tokens, request(tokens, SHARED, path="decode", stride=None, ranges=ranges))
    positions = [p for a, b in ranges for p in range(a, b - 1)]
    assert decode.probes().positions.tolist() == positions
    assert decode.index.steps == tuple((p, 1) for p in positions)
    assert (best(decode) == best(beside)[positions]).mean() > 0.85


def test_a_step_without_its_neighbours_ends_the_capture(stack, base, tokens):
    # The last step has room for one of the two.
    narrow = SHARED | {"max_num_batched_tokens": 80}
    with pytest.raises(RunFailed, match="3 of 3 steps ran without all 2 neighbours"):
        stack.call(base / "narrow", tokens, request(tokens, narrow))
    assert not (base / "narrow" / "index.json").exists()
