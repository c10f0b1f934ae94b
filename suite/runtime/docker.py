"""The `docker` runtime: the agent runs in a container of a pinned image, locked down and without a network."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import MissingPrerequisite, SuiteError
from suite.files import canonical_json, write_atomic
from suite.image.engine import Engine, connected, engine_errors, went_away
from suite.image.present import PresentImage
from suite.manifest.schema import Hardware
from suite.model.hub import mount_root
from suite.observer import Observer, SilentObserver
from suite.runtime.confinement import (
    AGENT,
    CACHE,
    INSIDE,
    Limits,
    Mount,
    User,
    choose_user,
    devices_of,
    environment_inside,
    give_to,
    host_settings,
    require_links_inside,
    require_no_way_out,
)
from suite.runtime.environment import PACKAGES_CODE, has_vllm, parse_packages
from suite.runtime.interface import AgentCall
from suite.runtime.leases import lease, remove, remove_abandoned
from suite.runtime.outcome import EventReader, raise_for_outcome
from suite.runtime.staging import stage_agent

_POLL_SECONDS = 0.1
_END_SECONDS = 60
"""How long a container may take to be gone after its last word."""
_DOING = "the container could not be run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a container ended."""

    exit_code: int
    """Negative: killed by that signal."""
    out_of_memory: bool


class DockerRuntime:
    """Runs agent calls in fresh containers of one image."""

    def __init__(
        self,
        image: PresentImage,
        *,
        hardware: Hardware,
        home: Path,
        cancelled: threading.Event | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`cancelled` is set when the user interrupts: calls in other threads then remove their container and raise."""
        self.image = image
        self._hardware = hardware
        self._home = home
        self._cancelled = cancelled or threading.Event()
        self._limits = limits or Limits.of_this_machine()

    @property
    def identity(self) -> str:
        """See `Runtime.identity`."""
        return self.image.image_id

    def packages(self) -> dict[str, str]:
        """See `Runtime.packages`."""
        said: list[bytes] = []
        with connected() as engine:
            ended = self._run(
                engine,
                ["python3", "-I", "-c", PACKAGES_CODE],
                mounts=[],
                environment={},
                on_output=said.append,
                on_tick=lambda: None,
                hardware=None,
            )
        text = b"".join(said).decode(errors="replace")
        try:
            found = parse_packages(text) if ended.exit_code == 0 else {}
        except ValueError:
            found = {}
        if not has_vllm(found):
            raise MissingPrerequisite(
                "the image has no vLLM under `python3`",
                where=self.image.image_id,
                hint=f"name another image{': ' + text.strip()[-300:] if text.strip() else ''}",
            )
        return found

    def call(self, call: AgentCall, observer: Observer) -> None:
        """See `Runtime.call`. The container is removed however the call ends.

        Raises:
            MissingPrerequisite: also where the container's memory or the engine's disk was too small.
        """
        out = call.folders["out"].host
        mounts, paths = self._mounts(call)
        shared = [folder.host for folder in call.folders.values() if folder.writable]
        # An earlier call may have been killed before it could look.
        for folder in shared:
            require_no_way_out(folder)
        write_atomic(out / "request.json", canonical_json(call.request(paths)))
        (out / "outcome.json").unlink(missing_ok=True)
        events = EventReader(out, observer)
        with connected() as engine, (out / "engine.log").open("ab", buffering=0) as log:
            remove_abandoned(engine, self._home, observer)
            ended = self._run(
                engine,
                ["python3", "-P", "-m", "suite.agent", call.command, f"{INSIDE}/out/request.json"],
                mounts=mounts,
                environment=call.environment,
                on_output=log.write,
                on_tick=events.poll,
                hardware=self._hardware,
            )
        for folder in shared:
            require_no_way_out(folder)
        events.poll()
        try:
            raise_for_outcome(out, ended.exit_code)
        except SuiteError as error:
            if ended.out_of_memory:
                raise self._out_of_memory(out) from error
            raise

    def run_script(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run one of the agent's scripts: `SCRIPT ARGUMENTS… FOLDER`, of which FOLDER alone may be written.

        Arguments that are files or folders of this machine are mounted read-only.
        """
        script, *arguments, target = command
        made = Mount(host=Path(target), inside=f"{INSIDE}/out", writable=True)
        mounts = [*self._own_mounts(), made]
        inside = []
        for number, argument in enumerate(arguments):
            path = Path(argument)
            if path.is_absolute() and path.exists():
                mounts.append(Mount(host=path, inside=f"{INSIDE}/in-{number}/{path.name}"))
            inside.append(mounts[-1].inside if path.is_absolute() and path.exists() else argument)
        said: list[bytes] = []
        with connected() as engine:
            remove_abandoned(engine, self._home, SilentObserver())
            ended = self._run(
                engine,
                ["python3", "-P", f"{AGENT}/suite/agent/{Path(script).name}", *inside, f"{INSIDE}/out"],
                mounts=mounts,
                environment={"HF_HUB_DISABLE_PROGRESS_BARS": "1"},
                on_output=said.append,
                on_tick=lambda: None,
                hardware=None,
            )
        require_no_way_out(Path(target))
        give_to(User(uid=os.geteuid(), gid=os.getegid()), [made])
        text = b"".join(said).decode(errors="replace")
        if ended.out_of_memory:
            text = f"{text}\nout of memory"
        return subprocess.CompletedProcess(list(command), ended.exit_code, stdout="", stderr=text)

    def _mounts(self, call: AgentCall) -> tuple[list[Mount], dict[str, str]]:
        """What is mounted, and where the stack finds each folder of the call."""
        mounts, paths = [], {}
        for name, folder in call.folders.items():
            root = folder.host if folder.writable else mount_root(folder.host)
            if not folder.writable:
                require_links_inside(root)
            mounts.append(Mount(host=root, inside=f"{INSIDE}/{name}", writable=folder.writable))
            paths[name] = f"{INSIDE}/{name}/{folder.host.relative_to(root)}".removesuffix("/.")
            if folder.writable:
                folder.host.mkdir(parents=True, exist_ok=True)
        return [*mounts, *self._own_mounts()], paths

    def _own_mounts(self) -> list[Mount]:
        cache = self._home / "containers" / "cache" / self.image.facts.config_digest.removeprefix("sha256:")[:12]
        cache.mkdir(parents=True, exist_ok=True)
        return [Mount(host=stage_agent(self._home), inside=AGENT), Mount(host=cache, inside=CACHE, writable=True)]

    def _run(
        self,
        engine: Engine,
        command: list[str],
        *,
        mounts: list[Mount],
        environment: Mapping[str, str],
        on_output: Callable[[bytes], Any],
        on_tick: Callable[[], None],
        hardware: Hardware | None,
    ) -> Ended:
        devices: dict[str, Any] = {}
        if hardware is not None:
            devices = devices_of(
                hardware,
                chosen=os.environ.get("SUITE_GPUS"),
                information=engine.information,
                is_podman=engine.is_podman,
            )
        user = choose_user(mounts, rootless=engine.is_rootless)
        give_to(user, mounts)
        where = self.image.image_id
        with lease(self._home) as labels, engine_errors(_DOING, where=where):
            created = engine.api.create_container(
                self.image.image_id,
                entrypoint=command[:1],
                command=command[1:],
                user=str(user),
                environment=environment_inside(environment),
                working_dir=f"{INSIDE}/out" if mounts else "/",
                hostname="stack",
                labels=labels,
                stdin_open=True,
                host_config=engine.api.create_host_config(
                    **host_settings(mounts=mounts, limits=self._limits, devices=devices)
                ),
                # Else the proxies of the client's settings, with their passwords, would become variables.
                use_config_proxy=False,
            )
            try:
                return self._attend(engine, created["Id"], on_output, on_tick)
            finally:
                # An engine that is gone cannot remove it; the next start does.
                with contextlib.suppress(Exception):
                    engine.require_alive()
                    remove(engine, created["Id"])

    def _attend(
        self, engine: Engine, container: str, on_output: Callable[[bytes], Any], on_tick: Callable[[], None]
    ) -> Ended:
        """Start the container, take what it says, and wait for its end.

        Its standard input stays open as long as this process lives: the agent ends when it closes.
        """
        from docker.utils.socket import frames_iter

        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        socket = engine.api.attach_socket(container, params=streams)

        def read() -> None:
            # An engine that goes away ends the stream; waiting for the container then says so. Where the log's disk is
            # full the stack must still be able to speak: it finds that out itself and says so in its outcome.
            with contextlib.suppress(OSError, ValueError):
                for _, data in frames_iter(socket, tty=False):
                    with contextlib.suppress(OSError):
                        on_output(data)

        reader = threading.Thread(target=read, name=f"suite-log-{container[:12]}", daemon=True)
        try:
            engine.api.start(container)
            reader.start()
            while reader.is_alive():
                on_tick()
                if self._cancelled.is_set():
                    raise KeyboardInterrupt
                reader.join(_POLL_SECONDS)
            return self._end_of(engine, container)
        finally:
            # The stream alone would leave the connection open.
            with contextlib.suppress(OSError, ValueError):
                socket._response.close()
            with contextlib.suppress(OSError):
                socket.close()

    def _end_of(self, engine: Engine, container: str) -> Ended:
        engine.require_alive()
        code = int(engine.api.wait(container, timeout=_END_SECONDS)["StatusCode"])
        state = engine.api.inspect_container(container)["State"]
        if state.get("Running"):
            raise went_away(_DOING, where=self.image.image_id)
        return Ended(exit_code=128 - code if code > 128 else code, out_of_memory=bool(state.get("OOMKilled")))

    def _out_of_memory(self, out: Path) -> MissingPrerequisite:
        return MissingPrerequisite(
            f"the stack wanted more memory than its container may take ({self._limits.memory_bytes / 1e9:,.1f} GB)",
            where=str(out),
            hint="close other programs, or make the stack smaller: a shorter max_model_len, a smaller KV cache "
            "(VLLM_CPU_KVCACHE_SPACE on a CPU), fewer --jobs",
        )
