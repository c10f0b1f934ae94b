import json

import pytest
from click.testing import CliRunner

from suite.cli.key import key
from suite.errors import InvalidInput


def run(*arguments, answer=None):
    return CliRunner().invoke(key, [*map(str, arguments)], input=answer)


def test_new_tells_the_id_and_what_to_do_with_the_files(tmp_path):
    result = run("new", tmp_path / "k")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{json.loads(run('show', tmp_path / 'k', '--json').stdout)['key_id']}\n"
    assert "signs in your name" in result.stderr


def test_show_prints_the_public_key_of_either_file(tmp_path):
    run("new", tmp_path / "k")
    text = run("show", tmp_path / "k").stdout
    assert text == run("show", tmp_path / "k.pub").stdout
    assert text.endswith((tmp_path / "k.pub").read_text())


def test_a_passphrase_is_asked_for_twice_and_again_to_read(tmp_path):
    assert run("new", tmp_path / "k", "--passphrase", answer="word\nword\n").exit_code == 0
    shown = run("show", tmp_path / "k", answer="word\n")
    assert shown.exit_code == 0
    assert "BEGIN PUBLIC KEY" in shown.stdout
    assert "word" not in shown.output
    assert isinstance(run("show", tmp_path / "k", answer="other\n").exception, InvalidInput)


@pytest.mark.parametrize("arguments", [("new", "k"), ("show", "none")])
def test_what_is_there_stays_and_what_is_not_is_named(tmp_path, arguments):
    (tmp_path / "k").write_text("precious")
    command, name = arguments
    assert isinstance(run(command, tmp_path / name).exception, InvalidInput)
    assert (tmp_path / "k").read_text() == "precious"
