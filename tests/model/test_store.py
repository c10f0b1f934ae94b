import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suite.errors import MissingPrerequisite
from suite.model.store import make_folder
from suite.observer import SilentObserver

MAKE = """
import sys, time
from pathlib import Path
from suite.model.store import make_folder
from suite.observer import SilentObserver
target, seconds, log = Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
def fill(folder):
    with log.open("a") as stream: stream.write("x")
    (folder / "half").write_text("half")
    time.sleep(seconds)
    (folder / "whole").write_text("whole")
make_folder(target, fill, SilentObserver())
"""


def start(target: Path, seconds: float, log: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", MAKE, str(target), str(seconds), str(log)])


def wait_for(path: Path) -> None:
    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not appear")


def test_a_folder_is_made_once_and_readable_to_everyone(tmp_path):
    calls = []

    def fill(folder: Path) -> None:
        calls.append(folder)
        (folder / "sub").mkdir(mode=0o700)
        (folder / "sub" / "file").write_text("x")
        (folder / "sub" / "file").chmod(0o600)

    target = tmp_path / "models" / "one"
    for _ in range(2):
        assert make_folder(target, fill, SilentObserver()) == target
    assert len(calls) == 1
    assert stat.S_IMODE((target / "sub").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "sub" / "file").stat().st_mode) == 0o644


def test_two_processes_make_a_folder_once(tmp_path):
    log = tmp_path / "log"
    both = [start(tmp_path / "target", 0.5, log) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert log.read_text() == "x"
    assert (tmp_path / "target" / "whole").exists()


def test_a_killed_process_leaves_nothing_that_counts_and_the_next_one_succeeds(tmp_path):
    target, log = tmp_path / "target", tmp_path / "log"
    process = start(target, 60, log)
    wait_for(tmp_path / ".target.tmp" / "half")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert not target.exists()
    assert start(target, 0, log).wait(30) == 0
    assert sorted(path.name for path in target.iterdir()) == ["half", "whole"]
    assert not (tmp_path / ".target.tmp").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_a_missing_prerequisite_and_leaves_nothing(tmp_path, code):
    def fill(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(code, os.strerror(code))

    with pytest.raises(MissingPrerequisite, match="no space left") as caught:
        make_folder(tmp_path / "target", fill, SilentObserver())
    assert caught.value.exit_code == 3
    assert not (tmp_path / "target").exists()
    assert not (tmp_path / ".target.tmp").exists()


def test_an_interrupt_leaves_nothing_half_made(tmp_path):
    def fill(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_folder(tmp_path / "target", fill, SilentObserver())
    assert [path.name for path in tmp_path.iterdir()] == [".target.lock"]


def test_other_errors_pass_unchanged(tmp_path):
    def fill(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        make_folder(tmp_path / "target", fill, SilentObserver())
