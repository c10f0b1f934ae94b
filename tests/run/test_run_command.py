"""`suite run` on a real stack: interrupted, then resumed by two processes at once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite.bundle.read import open_bundle
from suite.files import sha256_file
from tests.agent.test_faults import wait_for
from tests.agent_stack import ROOT, leftovers
from tests.run.world import write_repository

pytestmark = pytest.mark.vllm


@pytest.fixture
def world(tmp_path, smollm2, vllm_python):
    """Manifests, and the environment of the command; blanks and umlauts in every path."""
    manifests = write_repository(tmp_path / "Prüfstand eins", smollm2)
    home = tmp_path / "Zustand zwei"
    environment = os.environ | {
        "SUITE_HOME": str(home),
        "SUITE_VLLM_PYTHON": str(vllm_python),
        "PYTHONPATH": str(ROOT),
    }
    return manifests, home, environment


def start(world, *arguments: str) -> subprocess.Popen[str]:
    manifests, _, environment = world
    # A shell that starts this in the background has SIGINT ignored, which children inherit.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from suite.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", str(manifests / "small-kv-fp8.yaml"), "--repeats", "1", *arguments],
        env=environment,
        cwd=manifests.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(home: Path) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(home) in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def test_an_interrupted_run_is_resumed_by_two_processes_that_capture_everything_once(world, tmp_path):
    _, home, _ = world
    interrupted = start(world, "--results", str(tmp_path / "none"), "--jobs", "1")
    wait_for(lambda: list(home.glob("captures/*/start-0/chunk-00003.safetensors")), seconds=300)
    os.killpg(interrupted.pid, signal.SIGINT)
    _, said = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said
    assert processes_of(home) == []
    assert not list(home.glob("captures/*/start-0/index.json"))
    kept = {path: path.stat().st_mtime_ns for path in home.glob("captures/*/start-0/chunk-00000.safetensors")}
    assert len(kept) == 1

    both = [start(world, "--resume", "--json", "--results", str(tmp_path / name)) for name in ("one", "two")]
    answers = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    notes = "".join(said for _, said in answers)
    assert "resuming after" in notes
    assert "waiting for another process that makes start-0" in notes
    assert len(list(home.glob("captures/*/start-0/index.json"))) == 2
    bundles = [Path(json.loads(out)["measured"][0]["bundle"]) for out, _ in answers]
    assert len({sha256_file(bundle / "ledger.parquet") for bundle in bundles}) == 1
    headlines = open_bundle(bundles[0]).record.headlines
    assert headlines.n > 400
    assert 0 < headlines.flips < headlines.n // 2
    assert leftovers(home / "captures") == []
    assert processes_of(home) == []
