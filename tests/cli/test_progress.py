import io

import pytest

from suite.cli.progress import Progress


def test_plain_lines_name_the_work_and_end_with_it(capsys, monkeypatch):
    clock = iter([0.0, 5.0, 6.0, 6.5])
    monkeypatch.setattr("suite.cli.progress.time.monotonic", lambda: next(clock))
    with Progress() as progress:
        line = progress.line("stack start 0")
        assert progress.line("stack start 0") is line
        line.phase("engine start")
        line.phase("capture", total=7178, unit="tokens")
        line.advance(100)
        line.phase("")
        line.note("kept")
        line.warn("slow")
    assert capsys.readouterr().err.splitlines() == [
        "stack start 0: engine start",
        "stack start 0: engine start took 5.0 s",
        "stack start 0: capture: 7,178 tokens",
        "stack start 0: kept",
        "stack start 0: warning: slow",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_a_phase_is_a_bar_that_goes_when_it_ends(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "140")
    with Progress() as progress:
        line = progress.line("stack")
        line.phase("capture", total=10, unit="tokens")
        line.advance(4)
        assert [task.completed for task in progress._rich.tasks] == [4]
        line.phase("score", total=3)
        assert [task.description for task in progress._rich.tasks] == ["score"]
        line.phase("")
        assert not progress._rich.tasks
        line.note("[not markup]")
    assert "[not markup]" in terminal.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_silent(capsys, monkeypatch, terminal):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with Progress(quiet=True) as progress:
        line = progress.line("stack")
        line.phase("capture", total=10)
        line.note("nothing")
    assert capsys.readouterr().err == ""
