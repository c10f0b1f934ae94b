from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner, Result

from suite.cli.record import record
from suite.errors import InvalidInput, MissingPrerequisite
from suite.record.ids import with_recorded_ids
from suite.record.journal import Journal, encode_body, read_journals
from suite.record.sessions import write_sessions
from suite.workload.render import prompt_ids, render
from suite.workload.session import load_session
from suite.workload.turns import load_turns, turns_file
from tests.record.world import answer, fake_server
from tests.workload.conftest import make_tokenizer

PATH = "/v1/chat/completions"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(record, list(arguments))


def journal(folder: Path, *exchanges: tuple[dict[str, object], dict[str, object]]) -> None:
    """A journal as a proxy writes it."""
    made = Journal.create(folder, {"upstream": "http://x", "base": "/v1", "suite": "0"})
    for n, (request, reply) in enumerate(exchanges, 1):
        body = encode_body(json.dumps(request).encode())
        made.write({"event": "request", "n": n, "time": "2026-01-01T00:00:00Z", "path": PATH, "headers": {}, **body})
        made.write(
            {"event": "response", "n": n, "ms": 1, "status": 200, "headers": {"content-type": "application/json"}}
        )
        made.write({"event": "data", "n": n, "i": 0, "ms": 2, **encode_body(json.dumps(reply).encode())})
        made.write({"event": "end", "n": n, "ms": 3, "how": "complete"})
    made.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--upstream", "nowhere"),
        ("--name", "Not A Name"),
        ("--chat-template", "x"),
        (),
    ],
)
def test_bad_input_is_an_error_for_the_user(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert isinstance(run("--out", str(tmp_path / "o"), *arguments).exception, InvalidInput)


def test_ctrl_c_writes_the_sessions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = "from suite.cli.main import main; main()"
    with fake_server() as fake:
        options = ["record", "--upstream", f"http://127.0.0.1:{fake.port}", "--out", str(out), "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        line = ""
        while "point the agent at" not in line:
            line = process.stderr.readline()
            assert process.poll() is None
        url = line.split()[4].removesuffix("/v1")
        reply = httpx2.post(url + PATH, json={"messages": [{"role": "user", "content": "hi"}]}, timeout=30)
        assert reply.json() == answer()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "1 exchanges recorded" in stderr
    assert "recorded-1.json: 2 messages, 1 recorded answers" in stdout
    assert load_session(out / "sessions" / "recorded-1.json").messages[1].content == "ok"


def test_sessions_again_from_what_is_there(tmp_path: Path) -> None:
    question = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}
    journal(tmp_path, (question, answer("one")))
    assert run("--out", str(tmp_path), "--name", "mine").exit_code == 0
    messages = [*question["messages"], {"role": "assistant", "content": "one"}, {"role": "user", "content": "more"}]  # type: ignore[misc]
    journal(tmp_path, ({"messages": messages, "temperature": 0}, answer("two")))
    result = run("--out", str(tmp_path), "--name", "mine")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "sessions"
    assert sorted(path.name for path in folder.iterdir()) == ["mine-1.json", "mine-1.turns.json"]
    assert [m.content for m in load_session(folder / "mine-1.json").messages] == ["hi", "one", "more", "two"]
    assert len(read_journals(tmp_path).exchanges) == 2


def test_the_servers_ids_in_the_session(tmp_path: Path) -> None:
    """The ids that a server generated stay, also where its tokeniser would have written the text otherwise."""
    model = make_tokenizer(tmp_path / "model", ["<|im_start|>", "<|im_end|>"])
    question = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}
    journal(tmp_path / "a", (question, answer("show ip")))
    session = write_sessions(tmp_path / "a", name="s").written[0].built.session
    prompt = list(prompt_ids(session, model, 1))
    rendered = render(session, model)
    own = list(rendered.token_ids[len(prompt) :])
    assert len(own) < len("show ip") + 2
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    spelt = [vocabulary[c] for c in "showĠip"] + [vocabulary.get("<|im_end|>", 1)]
    reply = answer("show ip") | {"prompt_token_ids": prompt}
    reply["choices"][0]["token_ids"] = spelt
    journal(tmp_path / "b", (question, reply))
    result = run("--out", str(tmp_path / "b"), "--tokenizer", str(model))
    assert result.exit_code == 0, result.output
    path = tmp_path / "b" / "sessions" / "recorded-1.json"
    recorded = load_session(path).recorded
    assert recorded is not None
    assert recorded.token_ids[: len(prompt) + len(spelt)] == [*prompt, *spelt]
    assert render(load_session(path), model).token_ids == tuple(recorded.token_ids)
    turns = load_turns(turns_file(path))
    wrong = turns.model_copy(update={"turns": [turns.turns[0].model_copy(update={"output_token_ids": [5, 6]})]})
    with pytest.raises(InvalidInput, match="do not spell"):
        with_recorded_ids(session, wrong, model)


def test_a_torn_last_line_is_no_harm_and_a_damaged_one_is(tmp_path: Path) -> None:
    journal(tmp_path, ({"messages": [{"role": "user", "content": "hi"}]}, answer("one")))
    (path,) = tmp_path.glob("journal-*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event":"requ')
    result = run("--out", str(tmp_path))
    assert result.exit_code == 0
    assert "cut off while being written" in result.output
    path.write_bytes(whole.replace(b'"event":"data"', b'"event":"data', 1))
    assert isinstance(run("--out", str(tmp_path)).exception, InvalidInput)
    path.write_bytes(whole.replace(b'"schema_version":1', b'"schema_version":2', 1))
    assert "newer" in str(run("--out", str(tmp_path)).exception)


def test_a_wrong_tokenizer_is_told_before_anything_is_recorded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("--upstream", "http://127.0.0.1:9", "--port", "0", "--out", str(out), "--tokenizer", str(tmp_path))
    assert isinstance(result.exception, MissingPrerequisite)
    assert not out.exists()
