import json

import pytest

from suite.agent.events import DISK_FULL_EXIT
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.observer import SilentObserver
from suite.runtime.outcome import EventReader, log_tail, raise_for_outcome


class Seen(SilentObserver):
    def __init__(self):
        self.calls = []

    def phase(self, name, *, total=None, unit=""):
        self.calls.append((name, total, unit))

    def advance(self, count):
        self.calls.append(count)

    def note(self, text):
        self.calls.append(text)


def append(folder, data: bytes) -> None:
    with (folder / "events.jsonl").open("ab") as stream:
        stream.write(data)


def line(**values) -> bytes:
    return json.dumps(values).encode() + b"\n"


def test_lines_are_passed_on_once_also_when_they_arrive_in_pieces(tmp_path):
    seen = Seen()
    reader = EventReader(tmp_path, seen)
    reader.poll()  # there is no file yet
    phase = line(event="phase", name="capture", total=4, unit="tokens")
    advance = line(event="advance", count=3)
    for piece in (phase[:9], phase[9:] + advance[:4], advance[4:]):
        append(tmp_path, piece)
        reader.poll()
    append(tmp_path, line(event="note", text="näher") + line(event="done", name="capture", seconds=1.0))
    reader.poll()
    reader.poll()
    assert seen.calls == [("capture", 4, "tokens"), 3, "näher"]


def test_events_of_an_earlier_start_and_torn_lines_are_passed_over(tmp_path):
    append(tmp_path, line(event="note", text="old") + b'{"event": "adv')
    seen = Seen()
    reader = EventReader(tmp_path, seen)
    append(tmp_path, line(event="advance", count=1))
    append(tmp_path, b'{"event": "no' + line(event="advance", count=2))
    append(tmp_path, line(event="phase", name="sanity", total=None, unit=""))
    reader.poll()
    assert seen.calls == [1, ("sanity", None, "")]


def outcome(folder, **values) -> None:
    (folder / "outcome.json").write_text(json.dumps(values))


def test_done_is_done_even_if_the_engine_falls_over_afterwards(tmp_path):
    outcome(tmp_path, status="done")
    raise_for_outcome(tmp_path, 0)
    raise_for_outcome(tmp_path, -11)


@pytest.mark.parametrize(
    ("kind", "error", "code"),
    [
        ("context", InvalidInput, 2),
        ("disk_full", MissingPrerequisite, 3),
        ("sanity", RunFailed, 4),
        ("effective_mismatch", RunFailed, 4),
        ("a kind of the future", RunFailed, 4),
        ("altered", VerificationFailed, 5),
    ],
)
def test_kinds_of_failure_have_their_exit_codes(tmp_path, kind, error, code):
    outcome(tmp_path, status="failed", kind=kind, message="what", hint="do this")
    (tmp_path / "engine.log").write_text("noise\n")
    with pytest.raises(error, match="what") as caught:
        raise_for_outcome(tmp_path, 1)
    assert type(caught.value) is error
    assert caught.value.exit_code == code
    assert caught.value.hint == "do this"
    assert caught.value.where == str(tmp_path)


def test_an_engine_failure_shows_the_end_of_the_log(tmp_path):
    outcome(tmp_path, status="failed", kind="engine", message="what", hint="see")
    (tmp_path / "engine.log").write_text("".join(f"line {i}\n" for i in range(40)))
    with pytest.raises(RunFailed) as caught:
        raise_for_outcome(tmp_path, 1)
    assert "line 39" in caught.value.hint
    assert "line 10" not in caught.value.hint


@pytest.mark.parametrize(
    ("code", "how"), [(-9, "was killed by signal 9"), (1, "ended with exit code 1"), (0, "ended with exit code 0")]
)
def test_an_end_without_an_outcome(tmp_path, code, how):
    with pytest.raises(RunFailed, match=how) as caught:
        raise_for_outcome(tmp_path, code)
    assert "--resume" in caught.value.hint


def test_a_disk_too_full_for_an_outcome(tmp_path):
    with pytest.raises(MissingPrerequisite, match="no space left"):
        raise_for_outcome(tmp_path, DISK_FULL_EXIT)


def test_a_log_of_any_bytes(tmp_path):
    assert log_tail(tmp_path / "absent") == ""
    (tmp_path / "log").write_bytes(b"\xff\xfe ok\n")
    assert "ok" in log_tail(tmp_path / "log")
