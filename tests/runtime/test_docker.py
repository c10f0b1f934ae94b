"""The docker runtime against a real engine, with an agent that looks around, misbehaves, or is cut off."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.image.engine import connect, connected
from suite.image.present import PresentImage
from suite.image.pull import ensure_pulled
from suite.manifest.schema import Hardware
from suite.observer import SilentObserver
from suite.runtime.confinement import Limits
from suite.runtime.docker import DockerRuntime
from suite.runtime.interface import AgentCall, Folder
from tests.container_engine import another_engine, containers_of

pytestmark = pytest.mark.container

CPU = Hardware(kind="cpu", architecture="x86_64", threads=1)
MIB = 1 << 20

AGENT = """
import json, os, socket, sys, threading, time
from pathlib import Path

command, file = sys.argv[1:]
out = Path("/suite/out")

def watch():
    while os.read(0, 1):
        pass
    (out / "stdin-closed").write_text("")
    os._exit(7)

threading.Thread(target=watch, daemon=True).start()

def attempt(function, *arguments):
    try:
        function(*arguments)
        return "done"
    except OSError as error:
        return type(error).__name__ + " " + str(error.errno)

def finish(**values):
    (out / ".new").write_text(json.dumps({"status": "done", **values}))
    (out / ".new").rename(out / "outcome.json")

if command == "look":
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    request = json.loads(Path(file).read_text())
    (out / "seen.json").write_text(json.dumps({
        "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
        "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "no_new_privileges": status["NoNewPrivs"].strip(),
        "environment": dict(os.environ), "hostname": socket.gethostname(),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "request": request, "model": (Path(request["model"]) / "config.json").read_text(),
        "writes": {
            "root": attempt(Path("/here").write_text, "x"),
            "usr": attempt(Path("/usr/here").write_text, "x"),
            "model": attempt((Path(request["model"]) / "config.json").write_text, "x"),
            "agent": attempt(Path("/suite/agent/x").write_text, "x"),
            "tmp": attempt(Path("/tmp/x").write_text, "x"),
            "cache": attempt(Path("/suite/cache/x").write_text, "x"),
            "out": attempt((out / "x").write_text, "x"),
        },
        "docker_socket": [str(p) for p in (Path("/var/run/docker.sock"), Path("/run/docker.sock")) if p.exists()],
        "connect": attempt(socket.create_connection, ("192.0.2.1", 80), 3),
        "devices": sorted(os.listdir("/dev")),
        "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    }))
    print("a line for the log", flush=True)
    print("and one for the other stream", file=sys.stderr, flush=True)
    finish()
elif command == "sleep":
    print("sleeping", flush=True)
    (out / "started").write_text("")
    time.sleep(120)
elif command == "eat":
    block = []
    while True:
        block.append(bytearray(os.urandom(1 << 20)) * 8)
elif command == "fork":
    children, failed = 0, ""
    try:
        for _ in range(100):
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            children += 1
    except OSError as error:
        failed = str(error.errno)
    finish(children=children, failed=failed)
elif command == "fill":
    try:
        with open(out / "large", "wb") as stream:
            while True:
                stream.write(bytes(1 << 20))
    except OSError as error:
        os.unlink(out / "large")
        (out / "outcome.json").write_text(json.dumps(
            {"status": "failed", "kind": "disk_full", "message": "no space left", "hint": "free some"}))
        sys.exit(1)
elif command == "link":
    os.unlink(out / "x") if (out / "x").is_symlink() else None
    os.symlink("/etc/passwd", out / "x")
    finish()
elif command == "crash":
    print("the last words", flush=True)
    os.kill(os.getpid(), 11)
    os.abort()
"""


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Another agent in the place of the real one."""
    folder = tmp_path / "fake-agent"
    (folder / "suite" / "agent").mkdir(parents=True)
    (folder / "suite" / "__init__.py").write_text("")
    (folder / "suite" / "agent" / "__init__.py").write_text("")
    (folder / "suite" / "agent" / "__main__.py").write_text(textwrap.dedent(AGENT))
    monkeypatch.setattr("suite.runtime.docker.stage_agent", lambda home: folder)
    return folder


@pytest.fixture
def home(tmp_path) -> Path:
    folder = tmp_path / "home"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    return folder


def call(home: Path, command: str, **environment: str) -> AgentCall:
    return AgentCall(
        command=command,
        folders={"out": Folder(host=home / "out", writable=True), "model": Folder(host=home / "model")},
        request=lambda paths: {"out": paths["out"], "model": paths["model"]},
        environment=environment,
    )


def runtime(image: PresentImage, home: Path, **options) -> DockerRuntime:
    return DockerRuntime(image, hardware=CPU, home=home, **options)


def test_a_stack_sees_its_folders_and_nothing_else(base, engine, home, agent, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh12345678")
    monkeypatch.setenv("HTTPS_PROXY", "http://name:password@127.0.0.1:9")
    runtime(base, home).call(call(home, "look", OMP_NUM_THREADS="1"), SilentObserver())
    seen = json.loads((home / "out" / "seen.json").read_text())
    assert seen["uid"] != 0
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert seen["no_new_privileges"] == "1"
    assert seen["interfaces"] == ["lo"]
    assert seen["connect"].startswith(("OSError 101", "OSError 100"))
    assert {name: result for name, result in seen["writes"].items() if result == "done"}.keys() == {
        "tmp", "cache", "out",
    }  # fmt: skip
    assert (home / "model" / "config.json").read_text() == "{}"
    assert seen["model"] == "{}"
    assert seen["request"] == {"out": "/suite/out", "model": "/suite/model"}
    assert seen["docker_socket"] == []
    assert seen["hostname"] == "stack"
    assert seen["shm"] > 64 * MIB
    environment = seen["environment"]
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    told = json.dumps(environment)
    assert not any(word in told for word in ("hf_abc", "password", str(home), str(Path.home()) + "/"))
    log = (home / "out" / "engine.log").read_text()
    assert "a line for the log" in log
    assert "and one for the other stream" in log
    assert containers_of(engine, home) == []
    assert list((home / "containers").glob("*.lock")) == []


def test_proxies_of_the_clients_settings_stay_outside(base, home, agent, tmp_path, monkeypatch):
    (tmp_path / "docker").mkdir()
    proxies = {"proxies": {"default": {"httpProxy": "http://name:password@127.0.0.1:9"}}}
    (tmp_path / "docker" / "config.json").write_text(json.dumps(proxies))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    runtime(base, home).call(call(home, "look"), SilentObserver())
    seen = json.loads((home / "out" / "seen.json").read_text())
    assert not any("proxy" in name.lower() for name in seen["environment"])


def test_a_folder_closed_to_others_is_read_without_any_capability(base, home, agent):
    (home / "model" / "config.json").chmod(0o600)
    runtime(base, home).call(call(home, "look"), SilentObserver())
    seen = json.loads((home / "out" / "seen.json").read_text())
    assert seen["uid"] == os.geteuid()
    assert seen["capabilities"] == ["0000000000000000"] * 5


def test_out_of_memory_says_so(base, engine, home, agent):
    small = Limits(memory_bytes=64 * MIB, shared_memory_bytes=16 * MIB, temporary_bytes=16 * MIB)
    with pytest.raises(MissingPrerequisite, match=r"wanted more memory than its container may take \(0\.1 GB\)"):
        runtime(base, home, limits=small).call(call(home, "eat"), SilentObserver())
    assert containers_of(engine, home) == []


def test_processes_are_limited(base, home, agent):
    few = Limits(memory_bytes=512 * MIB, shared_memory_bytes=16 * MIB, temporary_bytes=16 * MIB, processes=10)
    runtime(base, home, limits=few).call(call(home, "fork"), SilentObserver())
    outcome = json.loads((home / "out" / "outcome.json").read_text())
    assert outcome["children"] < 10
    assert outcome["failed"] == "11"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_says_so(base, engine, home, agent):
    (home / "out").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(home / "out")], check=True)
    try:
        with pytest.raises(MissingPrerequisite, match="no space left"):
            runtime(base, home).call(call(home, "fill"), SilentObserver())
        assert not (home / "out" / "large").exists()
    finally:
        subprocess.run(["umount", str(home / "out")], check=True)
    assert containers_of(engine, home) == []


def test_a_link_that_a_stack_leaves_is_not_followed(base, engine, home, agent):
    with pytest.raises(VerificationFailed, match="something else than files"):
        runtime(base, home).call(call(home, "link"), SilentObserver())
    with pytest.raises(VerificationFailed, match="something else than files"):
        runtime(base, home).call(call(home, "look"), SilentObserver())
    assert not (home / "out" / "seen.json").exists()
    assert containers_of(engine, home) == []


def test_a_snapshot_of_the_hubs_cache_is_seen_with_its_blobs(base, home, agent):
    snapshot = home / "models--a--b" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (home / "models--a--b" / "blobs").mkdir()
    (home / "models--a--b" / "blobs" / "f00").write_text('{"from": "blob"}')
    (snapshot / "config.json").symlink_to("../../blobs/f00")
    folders = {"out": Folder(host=home / "out", writable=True), "model": Folder(host=snapshot)}
    request = AgentCall(
        command="look", folders=folders, request=lambda paths: {"out": paths["out"], "model": paths["model"]}
    )
    runtime(base, home).call(request, SilentObserver())
    seen = json.loads((home / "out" / "seen.json").read_text())
    assert seen["model"] == '{"from": "blob"}'
    assert seen["request"]["model"] == "/suite/model/snapshots/1"
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to("/etc/hostname")
    with pytest.raises(InvalidInput, match="leads out of the folder"):
        runtime(base, home).call(request, SilentObserver())


def test_a_crash_shows_the_end_of_the_log(base, engine, home, agent):
    with pytest.raises(RunFailed, match="was killed by signal") as caught:
        runtime(base, home).call(call(home, "crash"), SilentObserver())
    assert "the last words" in caught.value.hint
    assert containers_of(engine, home) == []


def test_cancelling_removes_the_container(base, engine, home, agent):
    cancelled = threading.Event()
    threading.Thread(target=lambda: (_wait_for(home / "out" / "started"), cancelled.set()), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        runtime(base, home, cancelled=cancelled).call(call(home, "sleep"), SilentObserver())
    assert "sleeping" in (home / "out" / "engine.log").read_text()
    assert containers_of(engine, home) == []


RUN = """
import signal, sys
from pathlib import Path
# A shell that starts the tests in the background has SIGINT ignored, which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
from suite.image.facts import parse_facts
from suite.image.present import PresentImage
from suite.manifest.schema import Hardware
from suite.observer import SilentObserver
import suite.runtime.docker as module
from suite.runtime.interface import AgentCall, Folder
home, agent, facts, image_id = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
module.stage_agent = lambda home: agent
image = PresentImage(facts=parse_facts(facts.read_bytes(), where="facts"), image_id=image_id)
hardware = Hardware(kind="cpu", architecture="x86_64", threads=1)
call = AgentCall(command="sleep", folders={"out": Folder(host=home / "out", writable=True)},
                 request=lambda paths: {"out": paths["out"]})
module.DockerRuntime(image, hardware=hardware, home=home).call(call, SilentObserver())
"""


def _other_process(base, home, agent) -> subprocess.Popen:
    """Another process that runs the sleeping agent, up to where it sleeps."""
    facts = home / "facts.json"
    facts.write_bytes(base.facts.to_bytes())
    child = subprocess.Popen([sys.executable, "-c", RUN, str(home), str(agent), str(facts), base.image_id])
    _wait_for(home / "out" / "started")
    return child


def test_control_c_removes_the_container(base, engine, home, agent):
    child = _other_process(base, home, agent)
    child.send_signal(signal.SIGINT)
    assert child.wait(120) != 0
    assert containers_of(engine, home) == []


def test_what_a_killed_process_leaves_ends_by_itself_and_is_removed_by_the_next(base, engine, home, agent):
    child = _other_process(base, home, agent)
    (left,) = containers_of(engine, home)
    child.kill()
    child.wait(120)
    _wait_for(home / "out" / "stdin-closed")
    engine.api.wait(left, timeout=30)
    seen: list[str] = []
    observer = SilentObserver()
    observer.note = seen.append
    runtime(base, home).call(call(home, "look"), observer)
    assert containers_of(engine, home) == []
    assert seen == ["removed 1 container that an interrupted run had left"]


def test_the_containers_of_others_are_left_alone(base, engine, home, agent, tmp_path):
    child = _other_process(base, home, agent)
    try:
        runtime(base, home).call(AgentCall(
            command="look",
            folders={"out": Folder(host=home / "out-2", writable=True), "model": Folder(host=home / "model")},
            request=lambda paths: {"out": paths["out"], "model": paths["model"]},
        ), SilentObserver())  # fmt: skip
        assert len(containers_of(engine, home)) == 1
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(120)


def test_an_image_without_the_engine_is_refused(base, home):
    with pytest.raises(MissingPrerequisite, match="no vLLM"):
        runtime(base, home).packages()


def test_no_engine_there(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(MissingPrerequisite, match="no container engine answers"):
        connect()
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(MissingPrerequisite, match="on another machine"):
        connect()


@pytest.mark.skipif(os.geteuid() != 0, reason="starts an engine")
def test_an_engine_killed_in_the_middle(world, home, agent, tmp_path, monkeypatch):
    with another_engine(tmp_path, monkeypatch) as other:
        _kill_it(other, world, home)


def _kill_it(other, world, home):
    with connected() as engine:
        image = ensure_pulled(world.base_image, engine=engine, home=home, observer=SilentObserver())

    def kill() -> None:
        _wait_for(home / "out" / "started")
        other.kill()

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(RunFailed, match="went away in the middle") as caught:
        runtime(image, home).call(call(home, "sleep"), SilentObserver())
    assert "--resume" in caught.value.hint
    other.start()
    runtime(image, home).call(call(home, "look"), SilentObserver())
    with connected() as engine:
        assert containers_of(engine, home) == []


def _wait_for(path: Path) -> None:
    for _ in range(300):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} did not come to be")


def test_a_script_of_the_agent_reads_its_arguments_and_writes_one_folder(base, engine, home, agent, tmp_path):
    (agent / "suite" / "agent" / "make.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "scheme, source, folder = sys.argv[1:]\n"
        "(Path(folder) / 'made').write_text(scheme + Path(source).read_text())\n"
        "(Path('/suite/cache') / 'kept').write_text('')\n"
        "Path(source).write_text('x')\n"
    )
    target = tmp_path / "target"
    target.mkdir()
    done = runtime(base, home).run_script(["make.py", "w8", str(home / "model" / "config.json"), str(target)])
    assert (target / "made").read_text() == "w8{}"
    assert (target / "made").stat().st_uid == os.geteuid()
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr
    assert containers_of(engine, home) == []
