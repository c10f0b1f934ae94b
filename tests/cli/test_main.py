import errno

import click
import pytest

from suite.cli import main as module
from suite.errors import InvalidInput, VerificationFailed


def ended(monkeypatch, error):
    """Exit code of `main` where the command raises `error`."""

    def command(**_):
        raise error

    monkeypatch.setattr(module, "cli", command)
    with pytest.raises(SystemExit) as caught:
        module.main()
    return caught.value.code


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InvalidInput("no such key", where="a.yaml:3"), 2, "error: a.yaml:3: no such key\n"),
        (VerificationFailed("another hash"), 5, "error: another hash\n"),
        (PermissionError(errno.EACCES, "Permission denied", "/results/x"), 3, "error: /results/x: Permission denied\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 3, "error: No space left on device\n"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", ".x.1.tmp", None, "x"), 3, "error: x: Is a directory\n"),
        (click.Abort(), 130, "interrupted\n"),
    ],
)
def test_what_a_person_can_mend_is_one_message(monkeypatch, capsys, error, code, text):
    assert ended(monkeypatch, error) == code
    assert capsys.readouterr().err.startswith(text)


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(module, "cli", lambda **_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        module.main()
