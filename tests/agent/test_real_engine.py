"""The agent with the real vLLM and a real model: codecs, fresh processes, ranks, kills, and the known traps."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from suite.agent.processor import this_processor
from suite.capture.store import StoredRows
from suite.errors import RunFailed, VerificationFailed
from suite.run.replayed import ReplayedRows
from suite.runtime.process import ProcessRuntime
from suite.score.floor import floor_of, repeat_floor
from suite.stack.engine_log import read_log
from suite.stack.receipt_view import capacity_of
from tests.agent.test_faults import agent_pids, wait_for
from tests.agent_stack import (
    CPU_ENGINE,
    CPU_EXPECT,
    FLOAT32_ENGINE,
    FLOAT32_EXPECT,
    Stack,
    job,
    leftovers,
    write_tokens,
)

pytestmark = pytest.mark.vllm

NUM_TOKENS = 200
# Few tokens: hidden states are replayed bit for bit in bfloat16 only, which is slow where the processor lacks it.
STEP = {"max_num_batched_tokens": 64}


def short_job(tokens: Path, **changes):
    """A request of several short steps in bfloat16."""
    return job(tokens, **{"engine": CPU_ENGINE | STEP, "expect": CPU_EXPECT | STEP, "chunk_rows": 32} | changes)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def stack(base, vllm_python, smollm2) -> Stack:
    return Stack(vllm_python, base / "home", smollm2)


@pytest.fixture(scope="module")
def tokens(base, text_ids) -> Path:
    return write_tokens(base / "inputs", text_ids[:NUM_TOKENS])


@pytest.fixture(scope="module")
def hidden(stack, base, tokens):
    """Hidden states at every position, four scheduler steps."""
    return stack.call(base / "hidden", tokens, short_job(tokens))


@pytest.fixture(scope="module")
def logits(stack, base, tokens):
    """The same as rows of logits, from a process that was killed between two steps and the one that went on."""
    out = base / "logits"
    request = short_job(tokens, codec="logits", start=1)
    caught = []

    def start():
        try:
            stack.call(out, tokens, request)
        except RunFailed as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    wait_for((out / "chunk-00001.safetensors").exists, seconds=300)
    (pid,) = agent_pids(out)
    os.kill(pid, signal.SIGKILL)
    thread.join()
    assert "was killed by signal 9" in caught[0].message
    assert not (out / "index.json").exists()
    return stack.call(out, tokens, request)


def replayed(capture, stack: Stack, *, heads: Path | None = None) -> ReplayedRows:
    return ReplayedRows(
        capture=capture,
        runtime=ProcessRuntime(stack.python, home=stack.home),
        environment=stack.environment({}),
        heads=heads or stack.heads,
        threads=1,
        device="cpu",
    )


def test_the_probe_is_accepted_and_every_fact_stands_in_the_index(hidden):
    index = hidden.index
    assert index.codec == "hidden"
    assert (index.row_width, index.vocab_size, index.tokenizer_size) == (576, 49_152, 49_152)
    assert index.steps == ((0, 64), (64, 64), (128, 64), (192, 8))
    assert [c.num_rows for c in index.chunks] == [32] * 6 + [7]
    assert (index.replay_probe.rows, index.replay_probe.accepted) == (64, True)
    assert (index.head.scale, index.head.soft_cap, index.head.has_bias) == (1.0, None, False)
    assert index.engine.model_runner == "v1"
    assert 1.0 < index.sanity.mean_nll < 4.0
    receipt = json.loads((hidden.folder / "receipt.json").read_text())
    assert receipt["effective"] | CPU_EXPECT | STEP == receipt["effective"]
    processor = this_processor()
    assert receipt["effective"]["isa"] == processor.isa
    assert receipt["ranks"][0]["device"]["extension"] == processor.extension
    assert receipt["ranks"][0]["attention"][0]["count"] == 30
    capacity = capacity_of(receipt["ranks"][0]["kv_cache"], receipt["ranks"][0]["max_model_len"])
    assert capacity.tokens_from_line > 10_000
    assert capacity.consistent is True
    log = read_log((hidden.folder / "engine.log").read_text().splitlines())
    told = log.effective()
    assert told | {name: receipt["effective"][name] for name in told} == told
    assert {"dtype", "kv_cache_dtype", "enforce_eager", "max_model_len", "model_runner"} <= told.keys()
    hidden.verify()


def test_fresh_processes_and_both_codecs_give_the_same_bits_also_after_a_kill(hidden, logits):
    every, again = hidden.probes(), logits.probes()
    assert again.positions.tolist() == list(range(NUM_TOKENS - 1))
    assert (every.row_sha256 == again.row_sha256).all()
    for name in ("logsumexp", "top_ids", "top_logits"):
        ours = np.concatenate([hidden.open_chunk(entry).read(name) for entry in hidden.index.chunks])
        theirs = np.concatenate([logits.open_chunk(entry).read(name) for entry in logits.index.chunks])
        assert (ours == theirs).all(), name
    assert logits.index.steps == hidden.index.steps
    assert leftovers(logits.folder) == []
    logits.verify()
    floor = floor_of(repeat_floor([hidden, logits]))
    assert [(start.flips, start.identical_rows, start.n) for start in floor.starts] == [(0, 199, 199)] * 2


def test_replay_outside_the_engine_gives_the_rows_that_were_stored_inside(hidden, logits, stack):
    stored = {int(p): row for block in StoredRows(capture=logits).blocks() for p, row in _each(block)}
    seen = 0
    for block in replayed(hidden, stack).blocks():
        for position, row in _each(block):
            if position in stored:
                seen += 1
                assert (row == stored[position]).all()
    assert seen == len(stored) == NUM_TOKENS - 1


def _each(block):
    return zip(block.positions.tolist(), block.rows, strict=True)


def test_a_head_that_was_changed_is_refused(hidden, stack, tmp_path):
    heads = tmp_path / "heads"
    shutil.copytree(stack.heads, heads)
    (path,) = heads.iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(VerificationFailed, match="the stored head was changed"):
        next(iter(replayed(hidden, stack, heads=heads).blocks()))


def test_hidden_states_that_were_changed_do_not_replay(hidden, stack, tmp_path):
    folder = tmp_path / "start"
    shutil.copytree(hidden.folder, folder)
    entry = hidden.index.chunks[1]
    tensor = hidden.open_chunk(entry).tensors["rows"]
    data = bytearray((folder / entry.file).read_bytes())
    data[tensor.offset_bytes + 1] ^= 0x40
    (folder / entry.file).write_bytes(data)
    capture = type(hidden)(folder=folder, index=hidden.index, index_sha256=hidden.index_sha256)
    with pytest.raises(VerificationFailed, match="1 of 199 replayed rows are not those that were captured"):
        list(replayed(capture, stack).blocks())
    with pytest.raises(VerificationFailed, match="its bytes are not those that were captured"):
        capture.verify()


def test_three_ranks(stack, base, tokens, hidden, record_property):
    ranks = {"tensor_parallel_size": 3}
    capture = stack.call(
        base / "tp3",
        tokens,
        short_job(tokens, engine=CPU_ENGINE | STEP | ranks, expect=CPU_EXPECT | STEP | ranks, stride=2),
    )
    index = capture.index
    assert index.codec == "hidden"
    assert index.replay_probe.accepted
    assert len(set(index.head.sha256s)) == 3
    receipt = json.loads((capture.folder / "receipt.json").read_text())
    assert [rank["rank"] for rank in receipt["ranks"]] == [0, 1, 2]
    blocks = list(replayed(capture, stack).blocks())  # the shards' products, joined, are the rows of the stack
    assert sum(len(block.positions) for block in blocks) == 99
    assert all(np.isfinite((block.rows.astype(np.uint32) << 16).view(np.float32)).all() for block in blocks)
    positions = capture.probes().positions
    assert positions.tolist() == list(range(1, NUM_TOKENS - 1, 2))
    assert (best(hidden)[positions] == best(capture)).mean() > 0.9
    # Three sums are rounded otherwise than one; how often that shows depends on the processor.
    same = (hidden.probes().row_sha256[positions] == capture.probes().row_sha256).all(axis=1).sum()
    record_property("rows of three ranks that are those of one", int(same))
    assert agent_pids(capture.folder) == []


def best(capture):
    return np.concatenate([capture.open_chunk(entry).read("top_ids")[:, 0] for entry in capture.index.chunks])


@pytest.mark.avx512
def test_an_unsupported_cache_dtype_that_the_engine_accepts_is_caught_by_the_sanity_check(stack, base, tokens):
    """Elsewhere vLLM takes it for an FP8 cache and does not start."""
    out = base / "int8"
    dtype = {"kv_cache_dtype": "int8_per_token_head"}
    with pytest.raises(RunFailed, match=r"mean NLL over the first 63 positions is .* a working stack stays under"):
        stack.call(out, tokens, job(tokens, engine=CPU_ENGINE | dtype, expect=CPU_EXPECT | dtype, sanity_max_nll=5.0))
    assert not list(out.glob("chunk-*.safetensors"))
    assert not (out / "index.json").exists()


def test_a_checkpoint_that_computes_garbage_is_caught_by_the_sanity_check(stack, base, tokens, smollm2, in_stack):
    """On every processor, and without a limit in the request; logits that are no numbers: see `test_faults`."""
    broken = base / "broken-model"
    shutil.copytree(smollm2, broken)
    in_stack(_BREAK, broken / "model.safetensors")
    request = job(tokens, engine=FLOAT32_ENGINE, expect=FLOAT32_EXPECT, codec="logits")
    with pytest.raises(RunFailed, match=r"mean NLL .* is \d+\.\d+ nats; a working stack stays under 10\.803"):
        Stack(stack.python, stack.home, broken).call(base / "broken", tokens, request)
    assert not list((base / "broken").glob("chunk-*.safetensors"))
    assert not (base / "broken" / "index.json").exists()


def test_settings_that_the_engine_silently_replaces_are_named(stack, base, tokens):
    out = base / "triton"
    engine = FLOAT32_ENGINE | {"attention_backend": "TRITON_ATTN"}
    expect = FLOAT32_EXPECT | {"attention_backend": "TRITON_ATTN", "threads": 2, "max_num_batched_tokens": 1024}
    with pytest.raises(RunFailed) as caught:
        stack.call(out, tokens, job(tokens, engine=engine, expect=expect))
    for text in (
        "attention_backend: requested 'TRITON_ATTN', effective 'CPU_ATTN'",
        "threads: requested 2, effective 1",
        "max_num_batched_tokens: requested 1024, effective 512",
    ):
        assert text in caught.value.message
    assert not list(out.glob("chunk-*.safetensors"))


_BREAK = """
import sys
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
tensors["model.norm.weight"] *= -1  # what was likely is unlikely now
save_file(tensors, sys.argv[1], metadata={"format": "pt"})
print("null")
"""
