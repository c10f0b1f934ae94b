from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from suite.cli.grade import FORMATS, grade
from suite.errors import InvalidInput
from suite.grade.formats import GRAMMARS

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]
QWEN = "<tool_call>\n<function=run>\n<parameter=command>\nping 10.0.0.6\n</parameter>\n</function>\n</tool_call>"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "output.txt").write_text(QWEN)
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "context.txt").write_text("The gateway is 10.0.0.5.")
    (tmp_path / "list.json").write_text('["10.0.0.6"]')
    return tmp_path


def run(*arguments, stdin=None):
    result = CliRunner().invoke(grade, [str(argument) for argument in arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_formats_of_help_are_those_that_exist():
    assert list(GRAMMARS) == list(FORMATS)


def test_json(files):
    result = run(
        files / "output.txt", "--tools", files / "tools.json", "--context", files / "context.txt", "--json",
        "--format", "qwen_xml",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "calls": [
            {
                "closed": True,
                "parsed": True,
                "name": "run",
                "known_name": True,
                "schema_valid": True,
                "arguments": {"command": "ping 10.0.0.6"},
                "literals": {"intact": [], "missing": [], "mutated": [["10.0.0.5", "10.0.0.6"]], "invented": []},
                "verdict": "literals changed",
                "first_fault": {"position": 52, "message": "'10.0.0.6' stands for '10.0.0.5'"},
            }
        ],
        "verdict": "literals changed",
    }


def test_auto_says_what_it_found(files):
    result = run("-", "--context", files / "list.json", stdin=QWEN)
    assert result.stderr == "format: qwen_xml\n"
    assert result.stdout.startswith("verdict: ok\n")
    assert run("-", stdin="just prose").stderr == "format: no call of a known format\n"


def test_the_table_names_the_fault(files):
    result = run("-", "--tools", files / "tools.json", stdin=QWEN.replace("run", "r\x1bun"))
    assert "unknown name" in result.stdout
    assert "\x1b" not in result.stdout


def test_truncated(files):
    assert "verdict: truncated" in run("-", "--truncated", "--format", "qwen_xml", stdin=QWEN[:50]).stdout
    assert "verdict: engine error" in run("-", "--engine-error", stdin=QWEN).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.txt"], "cannot be read"),
        (["-", "--tools", "context.txt"], "not JSON"),
        (["-", "--tools", "list.json"], "not a tool definition"),
        (["-", "--context", "tools.json"], "more than texts"),
        (["-", "--context", "absent.txt"], "cannot be read"),
        (["-", "--context", "list.json", "--message", "1"], "only a session"),
        (["-", "--message", "1"], "needs a session"),
        (["-", "--truncated", "--engine-error"], "ends in one way"),
    ],
)
def test_invalid_input(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    with pytest.raises(InvalidInput, match=message) as caught:
        run(*arguments, stdin=QWEN)
    assert caught.value.exit_code == 2
