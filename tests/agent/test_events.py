import errno
import json
import math

import pytest

from suite.agent.events import (
    DISK_FULL_EXIT,
    AgentFailure,
    Events,
    failure_of,
    is_disk_full,
    write_json,
    write_outcome,
)


def test_lines_are_there_at_once_and_phases_are_timed(tmp_path):
    events = Events(tmp_path)
    events.phase("capture", total=3, unit="rows")
    events.emit("advance", count=2)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["phase", "advance"]
    assert (lines[0]["name"], lines[0]["total"], lines[0]["unit"], lines[1]["count"]) == ("capture", 3, "rows", 2)
    assert events.done("capture") == events.seconds["capture"] >= 0
    events.close()


def test_progress_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    events = Events(tmp_path)
    events.phase("capture")
    assert events.done("capture") >= 0
    events.close()


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("I/O error: No space left on device (os error 28)"), True),
        (RuntimeError("Worker failed with error '[Errno 28] No space left on device: 'x''"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (RuntimeError("out of memory"), False),
    ],
)
def test_what_a_full_disk_looks_like(error, full):
    assert is_disk_full(error) is full
    assert failure_of(error).kind == ("disk_full" if full else "engine")


def test_a_failure_is_passed_on_as_it_is():
    failure = AgentFailure("sanity", "no", "do this")
    assert failure_of(failure) is failure
    assert failure_of(KeyError("x")).message == "KeyError: 'x'"


def test_json_is_canonical_and_whole_or_absent(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": "ö"})
    assert (tmp_path / "a.json").read_bytes() == '{"a":"ö","b":1}\n'.encode()
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "b.json", {"a": math.nan})
    (tmp_path / ".c.json.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_json(tmp_path / "c.json", {"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_outcomes_and_exit_codes(tmp_path):
    assert write_outcome(tmp_path, None, seconds="1.5") == 0
    assert json.loads((tmp_path / "outcome.json").read_text()) == {"status": "done", "seconds": "1.5"}
    assert write_outcome(tmp_path, AgentFailure("sanity", "no", "hint")) == 1
    assert json.loads((tmp_path / "outcome.json").read_text()) == {
        "status": "failed",
        "kind": "sanity",
        "message": "no",
        "hint": "hint",
    }


@pytest.mark.parametrize(("kind", "code"), [("disk_full", DISK_FULL_EXIT), ("engine", 1)])
def test_on_a_disk_too_full_for_the_outcome_the_exit_code_speaks(tmp_path, kind, code):
    (tmp_path / ".outcome.json.tmp").symlink_to("/dev/full")
    assert write_outcome(tmp_path, AgentFailure(kind, "no")) == code
    assert list(tmp_path.iterdir()) == []
