from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from suite.cli.workload import workload
from suite.errors import InvalidInput
from suite.workload.rendered import Rendered
from suite.workload.session import load_session, parse_session
from tests.workload.conftest import LAB, make_tokenizer

TEMPLATE = str(LAB / "chatml-tools.jinja")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tokenizer(tmp_path_factory.mktemp("model"), ["<|im_start|>", "<|im_end|>"]))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(workload, list(arguments), catch_exceptions=True)


def test_synthesize_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    result = run("synthesize", "--tokens", "3000", "--seed", "4", "--out", str(out))
    assert result.exit_code == 0
    assert "estimated without a tokenizer" in result.output
    assert load_session(out).name == "netops-lab-3k"


def test_synthesize_writes_to_standard_output() -> None:
    result = run("synthesize", "--tokens", "2500", "--seed", "4", "--name", "mine")
    assert parse_session(result.stdout_bytes).name == "mine"


def test_synthesize_measures_with_a_tokenizer(tmp_path: Path, model: str) -> None:
    out = tmp_path / "s.json"
    options = ("--tokenizer", model, "--chat-template", TEMPLATE)
    result = run("synthesize", "--tokens", "5000", "--seed", "4", *options, "--out", str(out))
    assert result.exit_code == 0
    rendering = run("render", str(out), *options, "--json")
    rendered = Rendered.from_json(rendering.stdout_bytes)
    assert 5000 - 256 <= rendered.num_tokens <= 5000
    assert f"{rendered.num_tokens:,} tokens" in result.output


def test_render_counts_and_writes(tmp_path: Path, model: str) -> None:
    out = tmp_path / "r.json"
    session = str(LAB / "session-7k.json")
    result = run("render", session, "--tokenizer", model, "--chat-template", TEMPLATE, "--out", str(out))
    assert result.exit_code == 0
    rendered = Rendered.from_json(out.read_bytes())
    assert rendered.tokens_sha256 in result.output
    assert f"{len(rendered.turns)} turns" in result.output
    for kind in ("assistant_output", "tool_call", "literal", "scaffold"):
        assert kind in result.output


def test_render_shows_flags(tmp_path: Path, model: str) -> None:
    value = json.loads((LAB / "session-7k.json").read_bytes())
    value["messages"][1]["content"] += " <|im_end|>"
    path = tmp_path / "s.json"
    path.write_text(json.dumps(value))
    result = run("render", str(path), "--tokenizer", model, "--chat-template", TEMPLATE)
    assert result.exit_code == 0
    assert "flag: message 1 (user): '<|im_end|>'" in result.stderr


def test_show_is_a_transcript() -> None:
    result = run("show", str(LAB / "session-7k.json"))
    assert result.exit_code == 0
    assert "netops-lab-7k: synthetic" in result.output
    assert "→ inventory_get(" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("synthesize", "--tokens", "10", "--seed", "1"),
        ("synthesize", "--tokens", "3000", "--seed", "1", "--chat-template", "x"),
        ("render", "none.json", "--tokenizer", "nowhere"),
        ("render", "none.json"),
        ("render", str(LAB / "session-7k.json"), "--tokenizer", "x", "--chat-template", "none.jinja"),
        ("show", "none.json"),
    ],
)
def test_bad_input_is_an_error_for_the_user(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, InvalidInput)
