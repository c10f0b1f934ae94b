"""Starts in the capture store, with a runtime that writes a made-up capture instead of starting an engine."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from suite.capture.store import Capture
from suite.errors import MissingPrerequisite, RunFailed, VerificationFailed
from suite.model.store import only_process
from suite.observer import SilentObserver
from suite.run.captures import Store, capture_bytes, capture_start, require_disk, require_same_steps
from suite.run.stack import Stack
from tests.capture.synthetic import bf16, write_capture
from tests.manifest.samples import lock, manifest, rendered


class FakeRuntime:
    """Writes a capture of seven rows after a moment; counts its calls."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None):
        self.requests = []
        self.seconds = seconds
        self.error = error
        self.seen_before = []

    def packages(self):
        return {}

    def call(self, call, observer):
        out = call.folders["out"].host
        self.requests.append(call.request({name: str(folder.host) for name, folder in call.folders.items()}))
        self.seen_before.append(sorted(path.name for path in out.iterdir()) if out.exists() else [])
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        rows = bf16(np.random.default_rng(0).normal(size=(7, 20)))
        write_capture(out, rows, list(range(8)), start=self.requests[-1]["start"])


def test_company_is_compared_only_with_a_reference_that_read_the_same_chunks(tmp_path):
    def capture(*steps):
        return SimpleNamespace(index=SimpleNamespace(steps=steps))

    beside = lock(tmp_path, capture__neighbours=3, engine__max_num_seqs=4)
    whole, chunked = capture((0, 7)), capture((0, 4), (4, 3))
    require_same_steps(beside, whole, whole)
    require_same_steps(lock(tmp_path), whole, chunked)
    with pytest.raises(RunFailed, match="in 2 steps beside its neighbours, in 1 by its reference"):
        require_same_steps(beside, whole, chunked)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(home=tmp_path / "home")


@pytest.fixture
def make(tmp_path):
    def stack(runtime) -> Stack:
        return Stack(
            manifest=manifest(tmp_path),
            lock=lock(tmp_path),
            rendered=rendered(),
            model_folder=tmp_path / "model",
            runtime=runtime,
        )

    return stack


def begin(stack: Stack, store: Store, *, start: int = 0, resume: bool = False, **more) -> Capture:
    more.setdefault("observer", SilentObserver())
    return capture_start(stack, start, store=store, resume=resume, sanity_max_nll=None, **more)


def test_a_start_is_captured_once_and_then_found(make, store):
    runtime = FakeRuntime()
    stack = make(runtime)
    first = begin(stack, store)
    assert begin(stack, store).index_sha256 == first.index_sha256
    assert len(runtime.requests) == 1
    assert begin(stack, store, start=1).folder.name == "start-1"
    request = runtime.requests[0]
    assert request["tokens_sha256"] == stack.lock.workload.tokens_sha256
    assert np.load(request["tokens"]).tolist() == list(stack.rendered.token_ids)
    assert request["model"] == str(stack.model_folder)


def test_tokens_that_were_changed_in_the_store_are_written_again(make, store):
    runtime = FakeRuntime()
    begin(make(runtime), store)
    Path(runtime.requests[0]["tokens"]).write_bytes(b"junk")
    begin(make(runtime), store, start=1)
    assert np.load(runtime.requests[1]["tokens"]).tolist() == list(rendered().token_ids)


@pytest.mark.parametrize("resume", [True, False])
def test_what_an_interrupted_start_left_stays_only_for_a_resume(make, store, resume):
    stack = make(FakeRuntime(error=RunFailed("killed")))
    with pytest.raises(RunFailed):
        begin(stack, store)
    folder = store.start_folder(stack.lock.capture_digest, 0)
    folder.mkdir()
    (folder / "chunk-00000.safetensors").write_bytes(b"x")
    runtime = FakeRuntime()
    begin(make(runtime), store, resume=resume)
    assert runtime.seen_before == [["chunk-00000.safetensors"] if resume else []]


def test_a_complete_start_that_is_damaged_is_an_error_not_a_reason_to_capture_again(make, store):
    capture = begin(make(FakeRuntime()), store)
    (capture.folder / capture.index.chunks[0].file).unlink()
    runtime = FakeRuntime()
    with pytest.raises(VerificationFailed, match="the chunk is missing"):
        begin(make(runtime), store)
    assert runtime.requests == []


def test_two_at_once_capture_a_start_once(make, store):
    runtime = FakeRuntime(seconds=0.5)
    stack = make(runtime)
    found = []
    threads = [threading.Thread(target=lambda: found.append(begin(stack, store))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({capture.index_sha256 for capture in found}) == 1
    assert len(found) == 3
    assert len(runtime.requests) == 1


def test_different_starts_do_not_wait_for_each_other(make, store):
    stack = make(FakeRuntime())
    held = store.start_folder(stack.lock.capture_digest, 0).with_name(".start-0.lock")
    with only_process(held, SilentObserver()):
        assert begin(stack, store, start=1).index.start == 1


def test_an_interrupt_ends_the_wait_for_another_process(make, store):
    stack = make(FakeRuntime())
    notes = []

    class Notes(SilentObserver):
        def note(self, text):
            notes.append(text)
            cancelled.set()

    cancelled = threading.Event()
    held = store.start_folder(stack.lock.capture_digest, 0).with_name(".start-0.lock")
    with only_process(held, SilentObserver()), pytest.raises(KeyboardInterrupt):
        begin(stack, store, observer=Notes(), cancelled=cancelled)
    assert notes == ["waiting for another process that makes start-0"]
    assert begin(stack, store).index.start == 0


def test_disk_space_is_reckoned_with_before_anything_starts(tmp_path):
    sizes = {"num_probes": 1000, "hidden_size": 5120, "vocab_size": 248_320, "dtype": "bfloat16"}
    assert capture_bytes(codec="hidden", **sizes) == 1000 * (2 * 5120 + 600)
    # The replay probe may fail, and then rows are stored.
    assert capture_bytes(codec="auto", **sizes) == capture_bytes(codec="logits", **sizes) == 1000 * (2 * 248_320 + 600)
    require_disk(0, home=tmp_path / "not yet")
    with pytest.raises(MissingPrerequisite, match=r"needs about 1,000,000,000\.00 GB") as caught:
        require_disk(10**18, home=tmp_path)
    assert "SUITE_HOME" in caught.value.hint
