"""The `process` runtime: the agent runs under an interpreter of this machine that has vLLM."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from suite.agent.processor import this_processor
from suite.errors import MissingPrerequisite
from suite.files import canonical_json, write_atomic
from suite.observer import Observer
from suite.runtime.environment import FIXED, PACKAGES_CODE, has_vllm, parse_packages
from suite.runtime.interface import AgentCall
from suite.runtime.network import cut_off
from suite.runtime.outcome import EventReader, raise_for_outcome
from suite.runtime.staging import stage_agent

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 10.0
_HELPERS_GRACE_SECONDS = 1.0
# What an interpreter needs to start; everything that changes numbers comes from the lock, secrets never pass.
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
)


def find_interpreter(named: str | None, environment: Mapping[str, str], root: Path) -> Path:
    """The stack's interpreter: the manifest's, else $SUITE_VLLM_PYTHON, else `.venv-vllm`, else this one.

    Raises:
        MissingPrerequisite: none of them exists.
    """
    if named not in (None, "auto"):
        path = Path(str(named)).expanduser()
        if not path.is_file():
            raise MissingPrerequisite(
                "there is no such interpreter", where=f"runtime.python: {named}", hint="correct the path"
            )
        return path.absolute()
    if chosen := environment.get("SUITE_VLLM_PYTHON"):
        if not Path(chosen).is_file():
            raise MissingPrerequisite(
                "there is no such interpreter", where=f"SUITE_VLLM_PYTHON={chosen}", hint="correct the variable"
            )
        return Path(chosen).absolute()
    for candidate in (root / ".venv-vllm" / "bin" / "python", Path(sys.executable)):
        if candidate.is_file() and "torch" in _installed(candidate):
            return candidate.absolute()
    raise MissingPrerequisite(
        "no interpreter with vLLM was found",
        where="runtime: process",
        hint="run `make vllm` in the repository, or set SUITE_VLLM_PYTHON to an interpreter that has vLLM",
    )


def _installed(python: Path) -> dict[str, str]:
    result = subprocess.run([str(python), "-I", "-c", PACKAGES_CODE], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise MissingPrerequisite(
            "the interpreter does not start", where=str(python), hint=result.stderr.strip()[-500:] or "reinstall it"
        )
    return parse_packages(result.stdout)


class ProcessRuntime:
    """Runs agent calls as child processes of their own session."""

    def __init__(
        self, python: Path, *, home: Path, cancelled: threading.Event | None = None, network: bool = True
    ) -> None:
        """`cancelled` is set when the user interrupts: calls in other threads then stop their child and raise.

        Without `network` the agent has none: see `suite.runtime.network`.
        """
        self.python = python
        self._home = home
        self._cancelled = cancelled or threading.Event()
        self._network = network

    def without_network(self) -> ProcessRuntime:
        """The same, whose agent is cut off the network."""
        return ProcessRuntime(self.python, home=self._home, cancelled=self._cancelled, network=False)

    @property
    def identity(self) -> str:
        """See `Runtime.identity`."""
        return str(self.python)

    def packages(self) -> dict[str, str]:
        """See `Runtime.packages`."""
        found = _installed(self.python)
        if not has_vllm(found):
            raise MissingPrerequisite(
                "vLLM is not installed there",
                where=str(self.python),
                hint="run `make vllm`, or name another interpreter",
            )
        return found

    def call(self, call: AgentCall, observer: Observer) -> None:
        """See `Runtime.call`."""
        out = call.folders["out"].host
        out.mkdir(parents=True, exist_ok=True)
        request = out / "request.json"
        write_atomic(request, canonical_json(call.request({name: str(f.host) for name, f in call.folders.items()})))
        (out / "outcome.json").unlink(missing_ok=True)
        events = EventReader(out, observer)
        command = [str(self.python), "-P", "-m", "suite.agent", call.command, str(request)]
        with (out / "engine.log").open("ab") as log:
            child = subprocess.Popen(
                command if self._network else cut_off(command),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(call.environment),
                cwd=out,
                start_new_session=True,
            )
            try:
                while child.poll() is None:
                    events.poll()
                    if self._cancelled.wait(_POLL_SECONDS):
                        raise KeyboardInterrupt
            finally:
                _stop(child)
                if child.stdin is not None:
                    child.stdin.close()
        events.poll()
        raise_for_outcome(out, child.returncode)

    def _environment(self, stack: Mapping[str, str]) -> dict[str, str]:
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # torch finds a compiled kernel by its source alone: one of another kind of processor computes garbage.
        processor = this_processor()
        compiled = self._home / "compiled" / (processor.isa or processor.architecture)
        own = {"PYTHONPATH": str(stage_agent(self._home)), "TORCHINDUCTOR_CACHE_DIR": str(compiled)}
        return passed | FIXED | own | dict(stack)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End the child and everything it started, also where it ended by itself: politely first, then for good."""
    group = child.pid
    try:
        if child.poll() is None:
            os.killpg(group, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_SECONDS)
        # Ranks and helpers see that the child is gone and clean up behind themselves.
        deadline = time.monotonic() + _HELPERS_GRACE_SECONDS
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(_POLL_SECONDS / 2)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def free_bytes(folder: Path) -> int:
    """Free disk space where `folder` is or will be, in bytes."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
