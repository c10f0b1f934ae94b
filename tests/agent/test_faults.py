"""What the agent leaves behind when something goes wrong: a fake engine, but real processes, files and kills."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.observer import SilentObserver
from suite.runtime.process import ProcessRuntime
from tests.agent_stack import ROOT, Stack, chunk_hashes, fake_job, leftovers, write_tokens

pytestmark = pytest.mark.vllm

SLOW = {"FAKE_STEP_SECONDS": "0.4"}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    # A blank and letters beyond ASCII: everything below runs under such a path.
    return tmp_path_factory.mktemp("zwölf Läufe")


@pytest.fixture(scope="module")
def stack(base, vllm_python) -> Stack:
    return Stack(vllm_python, base / "home", base / "model", fake=True)


@pytest.fixture(scope="module")
def tokens(base) -> Path:
    generator = random.Random(7)
    return write_tokens(base / "inputs", [generator.randrange(90) for _ in range(150)])


@pytest.fixture(scope="module")
def whole(stack, tokens, base):
    """Uninterrupted captures by codec."""
    made = {}

    def get(codec: str):
        if codec not in made:
            made[codec] = stack.call(base / f"whole-{codec}", tokens, fake_job(tokens, codec=codec))
            made[codec].verify()
        return made[codec]

    return get


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "start-0"


def agent_pids(out: Path) -> list[int]:
    """Processes that were started for this folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(out / "request.json") in words and b"suite.agent" in words:
            found.append(int(folder.name))
    return found


def wait_for(condition, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def kill_when(condition, stack, out, tokens, request, **environment) -> None:
    """Start, `kill -9` the agent as soon as `condition` holds, and see that the run says so."""
    caught = []

    def start():
        try:
            stack.call(out, tokens, request, environment=environment)
        except RunFailed as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    wait_for(condition)
    (pid,) = agent_pids(out)
    os.kill(pid, signal.SIGKILL)
    thread.join()
    assert "was killed by signal 9" in caught[0].message
    assert "--resume" in caught[0].hint
    assert not (out / "index.json").exists()


def inode(path: Path) -> int:
    return path.stat().st_ino


def chunk(out: Path, number: int) -> Path:
    return out / f"chunk-{number:05d}.safetensors"


def test_a_kill_in_the_capture_keeps_whole_chunks_and_the_rest_comes_out_the_same(stack, out, tokens, whole):
    request = fake_job(tokens, codec="logits")
    kill_when(chunk(out, 4).exists, stack, out, tokens, request, **SLOW)
    kept = [inode(chunk(out, n)) for n in range(4)]
    resumed = stack.call(out, tokens, request)
    assert [inode(chunk(out, n)) for n in range(4)] == kept
    assert chunk_hashes(resumed) == chunk_hashes(whole("logits"))
    assert resumed.index.steps == whole("logits").index.steps
    assert leftovers(out) == []
    resumed.verify()


def test_a_kill_while_facts_are_added_is_resumed(stack, out, tmp_path, base):
    long = write_tokens(tmp_path / "inputs", [n * 7 % 90 for n in range(390)])
    request = fake_job(long, chunk_rows=8)
    events = out / "events.jsonl"
    kill_when(lambda: events.is_file() and b'"fingerprint"' in events.read_bytes(), stack, out, long, request)
    resumed = stack.call(out, long, request)
    again = stack.call(tmp_path / "again", long, request)
    assert chunk_hashes(resumed) == chunk_hashes(again)
    assert leftovers(out) == []


def test_a_kill_after_the_fallback_goes_on_with_logits(stack, out, tokens):
    request = fake_job(tokens, codec="auto")
    journal = out / "chunks.jsonl"

    def fell_back() -> bool:
        return journal.is_file() and b'"codec": "logits"' in journal.read_bytes() and chunk(out, 4).exists()

    kill_when(fell_back, stack, out, tokens, request, FAKE_UNREPLAYABLE="1", **SLOW)
    kept = inode(chunk(out, 1))
    resumed = stack.call(out, tokens, request, environment={"FAKE_UNREPLAYABLE": "1"})
    assert inode(chunk(out, 1)) == kept
    assert resumed.index.codec == "logits"
    assert (resumed.index.replay_probe.rows, resumed.index.replay_probe.equal) == (64, 0)
    assert not resumed.index.replay_probe.accepted
    resumed.verify()


@pytest.fixture
def killed(stack, tokens, base, out) -> Path:
    """A copy of the folder of a start that was killed after five chunks."""
    first = base / "killed"
    if not first.exists():
        request = fake_job(tokens, codec="logits")
        kill_when(chunk(first, 4).exists, stack, first, tokens, request, **SLOW)
    shutil.copytree(first, out)
    return out


def truncated(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size - 3)


def altered(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncated, altered])
def test_a_chunk_that_changed_while_nothing_ran_is_refused(stack, killed, tokens, damage):
    damage(chunk(killed, 1))
    with pytest.raises(VerificationFailed, match=r"chunk-00001.safetensors is not what .* wrote") as caught:
        stack.call(killed, tokens, fake_job(tokens, codec="logits"))
    assert "without --resume" in caught.value.hint
    assert not (killed / "index.json").exists()


def test_chunks_of_another_job_are_not_resumed(stack, killed, tokens, whole):
    old = inode(chunk(killed, 0))
    capture = stack.call(killed, tokens, fake_job(tokens, codec="logits", chunk_rows=32))
    assert inode(chunk(killed, 0)) != old
    assert capture.index.chunks[0].num_rows == 32
    assert capture.probes().rows_sha256 == whole("logits").probes().rows_sha256


def test_a_journal_torn_by_the_kill_is_read_up_to_the_tear(stack, killed, tokens, whole):
    with (killed / "chunks.jsonl").open("ab") as stream:
        stream.write(b'{"file": "chunk-000')
    resumed = stack.call(killed, tokens, fake_job(tokens, codec="logits"))
    assert chunk_hashes(resumed) == chunk_hashes(whole("logits"))


def test_a_stack_whose_rows_differ_after_the_restart_is_not_mixed_with_itself(stack, killed, tokens):
    with pytest.raises(RunFailed, match=r"a row of chunk-0000\d.safetensors differs") as caught:
        stack.call(killed, tokens, fake_job(tokens, codec="logits"), environment={"FAKE_SHIFT": "0.25"})
    assert "does not repeat itself" in caught.value.hint
    assert not (killed / "index.json").exists()


def test_an_engine_error_leaves_no_short_chunk_behind(stack, out, tokens, whole):
    request = fake_job(tokens, codec="logits", chunk_rows=24)
    with pytest.raises(RunFailed, match="the kernel exploded") as caught:
        stack.call(out, tokens, request, environment={"FAKE_BREAK_AT": "100"})
    assert "RuntimeError: the kernel exploded" in caught.value.hint
    assert [path.name for path in sorted(out.glob("chunk-*.safetensors"))] == [chunk(out, n).name for n in range(4)]
    resumed = stack.call(out, tokens, request)
    assert resumed.probes().rows_sha256 == whole("logits").probes().rows_sha256


@pytest.mark.parametrize("codec", ["logits", "hidden"])
def test_rows_that_are_not_finite_end_the_run_also_when_it_is_resumed(stack, out, tokens, codec):
    request = fake_job(tokens, codec=codec)
    # Hidden states of 3e38 are finite numbers; their logits are not.
    fault = {"FAKE_NAN_AT": "40"} if codec == "logits" else {"FAKE_HUGE_AT": "40"}
    for _ in range(2):
        with pytest.raises(RunFailed, match="1 of 149 captured rows hold NaN or infinity"):
            stack.call(out, tokens, request, environment=fault)
        assert not (out / "index.json").exists()
    if codec == "logits":  # the bad row lies in a chunk that a later, sound start would keep
        with pytest.raises(RunFailed, match="1 of 149 captured rows"):
            stack.call(out, tokens, request)


def test_sanity_says_that_logits_are_not_numbers(stack, out, tokens):
    with pytest.raises(RunFailed, match="is not a number: logits hold NaN or infinity"):
        stack.call(out, tokens, fake_job(tokens), environment={"FAKE_NAN_AT": "2"})
    assert not list(out.glob("chunk-*"))


def test_sanity_stops_an_unbelievable_stack(stack, out, tokens):
    with pytest.raises(RunFailed, match=r"mean NLL over the first 7 positions is \d+\.\d+ nats"):
        stack.call(out, tokens, fake_job(tokens, sanity_max_nll=0.5))
    assert not list(out.glob("chunk-*"))


@pytest.mark.parametrize(("fault", "why"), [("FAKE_UNREPLAYABLE", "0 of 64 probe rows"), ("FAKE_QUANTISED_HEAD", "")])
def test_a_head_that_cannot_be_replayed_falls_back_under_auto_and_fails_under_hidden(
    stack, out, tmp_path, tokens, fault, why
):
    notes = []

    class Notes(SilentObserver):
        def note(self, text):
            notes.append(text)

    capture = stack.call(out, tokens, fake_job(tokens, codec="auto"), environment={fault: "1"}, observer=Notes())
    assert capture.index.codec == "logits"
    assert capture.index.head is None
    assert not capture.index.replay_probe.accepted
    assert any("falling back to codec logits" in note and why in note for note in notes)
    capture.verify()
    with pytest.raises(RunFailed, match="the head cannot be replayed on this stack"):
        stack.call(tmp_path / "strict", tokens, fake_job(tokens, codec="hidden"), environment={fault: "1"})


def test_hidden_and_logits_give_the_same_rows(whole):
    assert whole("hidden").index.row_width < whole("hidden").index.vocab_size
    assert whole("hidden").probes().rows_sha256 == whole("logits").probes().rows_sha256


def test_a_request_that_was_preempted_is_noticed(stack, out, tokens):
    with pytest.raises(RunFailed, match="was computed again after 31: the request was preempted"):
        stack.call(out, tokens, fake_job(tokens, sanity_positions=2), environment={"FAKE_PREEMPT_AT": "31"})


def test_an_engine_that_does_not_start(stack, out, tokens):
    with pytest.raises(RunFailed, match="vLLM did not start: ValueError: no kernel for this head size"):
        stack.call(out, tokens, fake_job(tokens), environment={"FAKE_NO_START": "1"})


def test_settings_that_the_engine_did_not_take_stop_the_run(stack, out, tokens):
    expect = {"threads": 5, "max_num_batched_tokens": 31, "attention_backend": "TRITON_ATTN", "max_num_seqs": 1}
    with pytest.raises(RunFailed) as caught:
        stack.call(out, tokens, fake_job(tokens, expect=expect))
    assert "threads: requested 5, effective 1" in caught.value.message
    assert "max_num_batched_tokens: requested 31, effective 32" in caught.value.message
    assert "attention_backend: requested 'TRITON_ATTN', effective 'FAKE_ATTN'" in caught.value.message
    assert "max_num_seqs" not in caught.value.message
    assert json.loads((out / "receipt.json").read_text())["effective"]["threads"] == 1


def test_a_workload_longer_than_the_context(stack, out, tokens):
    with pytest.raises(InvalidInput, match="150 tokens, the engine's context of 150"):
        stack.call(out, tokens, fake_job(tokens, engine={"max_num_batched_tokens": 32, "max_model_len": 150}))


def test_other_tokens_than_the_lock_names(stack, out, tokens):
    with pytest.raises(VerificationFailed, match="the lock names 0000"):
        stack.call(out, tokens, fake_job(tokens, tokens_sha256="0" * 64))


def test_a_full_disk_leaves_nothing_half_written(stack, out, tokens, whole):
    request = fake_job(tokens, codec="logits")
    with pytest.raises(MissingPrerequisite, match="no space left on the disk") as caught:
        stack.call(out, tokens, request, environment={"FAKE_FULL_DISK": str(out / ".chunk-00003.safetensors.tmp")})
    assert caught.value.exit_code == 3
    assert "--resume" in caught.value.hint
    assert leftovers(out) == []
    assert not (out / "index.json").exists()
    assert [path.name for path in sorted(out.glob("chunk-*.safetensors"))] == [chunk(out, n).name for n in range(3)]
    assert chunk_hashes(stack.call(out, tokens, request)) == chunk_hashes(whole("logits"))


def test_more_rows_per_chunk_than_memory_holds_are_not_reserved(stack, out, tokens, whole):
    capture = stack.call(out, tokens, fake_job(tokens, codec="logits", chunk_rows=1 << 40))
    assert [c.num_rows for c in capture.index.chunks] == [149]
    assert capture.probes().rows_sha256 == whole("logits").probes().rows_sha256


def test_chunks_that_no_product_fills_and_ranges_up_to_the_end(stack, out, tokens, whole):
    request = fake_job(tokens, stride=1000, ranges=[[1, 3], [140, 150]], chunk_rows=5)
    capture = stack.call(out, tokens, request)
    table, every = capture.probes(), whole("logits").probes()
    assert table.positions.tolist() == [0, 1, *range(139, 149)]
    assert (table.row_sha256 == every.row_sha256[table.positions]).all()


def test_a_resumed_decode_capture_equals_an_uninterrupted_one(stack, out, tmp_path, tokens):
    request = fake_job(tokens, path="decode", stride=None, ranges=[[10, 40], [60, 61], [90, 118]], chunk_rows=8)
    uninterrupted = stack.call(tmp_path / "whole", tokens, request)
    assert uninterrupted.index.rows_per_gemm == 1
    assert uninterrupted.index.steps == tuple((p, 1) for p in [*range(10, 39), *range(90, 117)])
    kill_when(chunk(out, 5).exists, stack, out, tokens, request, FAKE_STEP_SECONDS="0.05")
    resumed = stack.call(out, tokens, request)
    assert resumed.index.steps == uninterrupted.index.steps
    assert chunk_hashes(resumed) == chunk_hashes(uninterrupted)


def test_the_agent_and_its_ranks_end_with_a_host_that_is_killed(stack, out, tokens):
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, str(stack.python), str(stack.home), str(out), str(tokens)], cwd=ROOT
    )
    try:
        wait_for(lambda: chunk(out, 1).exists())
        pids = [*agent_pids(out), int((out / "rank").read_text())]
    finally:
        host.kill()
        host.wait()
    assert len(pids) == 2
    for pid in pids:
        wait_for(lambda pid=pid: ended(pid), seconds=10)


def ended(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


_HOST = """
import sys
from pathlib import Path
from tests.agent_stack import Stack, fake_job
python, home, out, tokens = map(Path, sys.argv[1:])
faults = {"FAKE_STEP_SECONDS": "1", "FAKE_RANK": str(out / "rank")}
Stack(python, home, home, fake=True).call(out, tokens, fake_job(tokens, codec="logits"), environment=faults)
"""


def test_an_interrupt_stops_the_agent_and_keeps_whole_chunks(stack, out, tokens, whole):
    cancelled = threading.Event()
    runtime = ProcessRuntime(stack.python, home=stack.home, cancelled=cancelled)
    request = fake_job(tokens, codec="logits")
    waiting = threading.Thread(target=lambda: (wait_for(chunk(out, 1).exists), cancelled.set()))
    waiting.start()
    with pytest.raises(KeyboardInterrupt):
        stack.call(out, tokens, request, environment=SLOW, runtime=runtime)
    waiting.join()
    assert agent_pids(out) == []
    assert chunk(out, 0).exists()
    assert chunk_hashes(stack.call(out, tokens, request)) == chunk_hashes(whole("logits"))


def test_a_model_file_that_is_not_the_locks_stops_the_start_before_the_engine(stack, tokens, out):
    stack.model.mkdir(exist_ok=True)
    (stack.model / "weights.bin").write_bytes(b"changed")
    request = fake_job(tokens, model_files={"weights.bin": "0" * 64})
    with pytest.raises(VerificationFailed, match=r"weights\.bin of the checkpoint is not the file that the lock pins"):
        stack.call(out, tokens, request)
    assert not (out / "receipt.json").exists()
