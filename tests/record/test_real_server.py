"""A real vLLM on the CPU as a server: recordings through the proxy render to its ids, and it answers turn replays.

One server for both, because its start costs more than all that is asked of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from click.testing import CliRunner

from suite.cli.replay import replay
from suite.record.ids import with_recorded_ids
from suite.record.journal import read_journals
from suite.record.sessions import Written, write_sessions
from suite.replay.schema import ReplaysRecord, parse_replays
from suite.stack.engine_log import read_log
from suite.stack.launch import launch
from suite.workload.check.run import check_session
from suite.workload.render import prompt_ids, render
from suite.workload.session import load_session
from suite.workload.synthesize import build_session
from suite.workload.turns import load_turns, turns_file
from tests.agent_stack import ROOT
from tests.manifest.samples import CPU, lock
from tests.record.templates import ALL, CHATML
from tests.record.world import Running, proxy

pytestmark = pytest.mark.vllm

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "device_show",
            "description": "Run a show command",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}, "lines": {"type": "integer"}},
            },
        },
    }
]
START_SECONDS = 400


class Server:
    """A running server and its log."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log


@pytest.fixture(scope="module")
def server(vllm_python: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of this file, started as `suite launch` prints it; requests bring their templates."""
    folder = tmp_path_factory.mktemp("server")
    log = folder / "log.txt"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stack = lock(
        folder,
        CPU,
        name="small",
        model={"path": str(folder)},
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
        engine__dtype="float32",
        engine__kv_cache_dtype="auto",
        engine__max_model_len=4096,
        serve={
            "max_num_seqs": 2,
            "enable_prefix_caching": True,
            "enable_auto_tool_choice": True,
            "tool_call_parser": "hermes",
            "extra": {"trust_request_chat_template": True},
        },
    )
    made = launch(stack, model_folder=str(smollm2), port=port)
    variables = {
        "PATH": f"{vllm_python.parent}:/usr/bin:/bin", "HOME": str(folder), "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }  # fmt: skip
    with log.open("wb") as stream:
        process = subprocess.Popen(made.plain, stdout=stream, stderr=stream, env=variables, start_new_session=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _healthy(port):
            assert process.poll() is None, log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
            time.sleep(0.2)
        yield Server(f"http://127.0.0.1:{port}", log)
    finally:
        # Nothing of it is kept, and a polite end takes vLLM seconds.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.fixture(scope="module")
def vllm_server(server: Server) -> str:
    return server.url


def _healthy(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx2.HTTPError:
        return False


def client_of(running: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-not-a-real-key-12345", max_retries=0, timeout=120)


def play(client: openai.OpenAI, template: str, *, stream: bool) -> None:
    """An agent of four turns: two calls in parallel, whose results it sends back, and two answers in words."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You look after a small network."},
        {"role": "user", "content": "Which ports are up on sw-1? Be brief."},
    ]
    extra = {"return_token_ids": True, "chat_template": template}
    # The model ends its turns with its own token, which only two of the shapes write: here it writes words alone.
    words_alone = {str(token_id): -100 for token_id in range(17)}
    for turn in range(4):
        options: dict[str, Any] = {
            "model": "small", "messages": messages, "tools": TOOLS, "temperature": 0, "max_tokens": 8,
            "tool_choice": "none", "extra_body": extra, "logit_bias": words_alone,
        }  # fmt: skip
        if stream:
            pieces = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
            content = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
        else:
            content = client.chat.completions.create(**options).choices[0].message.content or ""
        if turn == 1:
            # The small model calls no tool; an agent that was answered otherwise goes on like this.
            calls = [
                {"id": f"call{n}", "type": "function", "function": {"name": "device_show", "arguments": json.dumps(a)}}
                for n, a in enumerate([{"command": "show ip int brief", "lines": 3}, {"command": "show vlan"}])
            ]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": f"call{n}", "content": f"Gi0/{n} up"} for n in range(2)]
        else:
            messages.append({"role": "assistant", "content": content})
            messages.append({"role": "user", "content": f"And what else? ({turn})"})


def recorded(folder: Path, name: str = "s") -> Written:
    result = write_sessions(folder, name=name)
    assert result.problems == ()
    (written,) = result.written
    return written


def test_the_plain_command_serves_under_the_settings_of_the_manifest(server: Server) -> None:
    """What `suite launch` prints is what starts."""
    body = {"model": "small", "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
    answer = httpx2.post(f"{server.url}/v1/completions", json=body, timeout=120).json()
    assert answer["model"] == "small"
    assert answer["usage"]["completion_tokens"] == 4
    report = read_log(server.log.read_text(errors="replace").splitlines())
    assert report.not_taken() == []
    told = report.effective()
    assert told["max_model_len"] == 4096
    assert told["dtype"] == "float32"
    assert told["enforce_eager"] is True


# How a stream is put together does not depend on the template: a shape that ends turns as the model does, and one not.
SHAPES = [*((shape, False) for shape in ALL), ("chatml", True), ("gemma", True)]


@pytest.mark.parametrize(
    ("shape", "stream"), SHAPES, ids=[f"{shape}-{'streamed' if stream else 'whole'}" for shape, stream in SHAPES]
)
def test_a_recording_renders_to_the_servers_ids(
    shape: str, stream: bool, vllm_server: str, smollm2: Path, tmp_path: Path
) -> None:
    with proxy(vllm_server, tmp_path) as running:
        play(client_of(running), ALL[shape], stream=stream)
    written = recorded(tmp_path)
    session = load_session(written.path)
    turns = load_turns(turns_file(written.path))
    assert [t.message for t in turns.turns] == [2, 4, 7, 9]
    assert [t.changed for t in turns.turns] == [False, True, False, False]
    assert session.sampling.temperature == 0
    template = ALL[shape]
    for turn in turns.turns:
        ids = prompt_ids(session, smollm2, turn.message, chat_template=template)
        assert list(ids) == turn.prompt_token_ids, f"message {turn.message}"
    last = turns.turns[-1]
    assert last.output_token_ids
    complete = with_recorded_ids(session, turns, smollm2, chat_template=template)
    rendered = render(complete, smollm2, chat_template=template)
    own = [*(last.prompt_token_ids or []), *last.output_token_ids]
    assert list(rendered.token_ids[: len(own)]) == own
    assert rendered.turns[-1].output_start == len(last.prompt_token_ids or [])
    codes = {f.code for f in check_session(session, smollm2, chat_template=template, turns=turns).findings}
    assert not codes & {"ids-differ", "not-renderable", "no-generation-prompt", "arguments-as-string"}


def test_a_wrong_template_is_found(vllm_server: str, smollm2: Path, tmp_path: Path) -> None:
    with proxy(vllm_server, tmp_path) as running:
        play(client_of(running), CHATML, stream=False)
    written = recorded(tmp_path)
    report = check_session(
        load_session(written.path), smollm2, chat_template=ALL["gemma"], turns=load_turns(turns_file(written.path))
    )
    assert {"ids-differ", "foreign-template"} <= {f.code for f in report.findings}


def test_asked_for_by_the_proxy_alone(vllm_server: str, smollm2: Path, tmp_path: Path) -> None:
    """An agent that knows nothing of token ids, with the checkpoint's own template."""
    with proxy(vllm_server, tmp_path, ask_token_ids=True) as running:
        client = client_of(running)
        reply = client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "Say yes."}], max_tokens=5, temperature=0
        )
    written = recorded(tmp_path)
    (turn,) = written.turns.turns
    assert turn.prompt_token_ids == list(prompt_ids(written.built.session, smollm2, 1))
    assert written.built.session.messages[-1].content == reply.choices[0].message.content
    assert "sk-not-a-real-key" not in "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())


def test_completions_and_responses(vllm_server: str, tmp_path: Path) -> None:
    with proxy(vllm_server, tmp_path) as running:
        client = client_of(running)
        prompt = "<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant\n"
        done = client.completions.create(model="small", prompt=prompt, max_tokens=5, temperature=0)
        answer = client.responses.create(model="small", input="Say no.", max_output_tokens=16, temperature=0)
        events = list(client.responses.create(model="small", input="Say it.", max_output_tokens=16, stream=True))
    result = write_sessions(tmp_path, name="s")
    sessions = [w.built.session for w in result.written]
    assert [s.messages[0].content for s in sessions] == ["Say yes.", "Say no.", "Say it."]
    assert sessions[0].messages[1].content == done.choices[0].text
    assert sessions[1].messages[1].content == answer.output_text
    assert sessions[2].messages[1].content == "".join(e.delta for e in events if e.type == "response.output_text.delta")


def test_refused_requests_pass_and_are_noted(vllm_server: str, tmp_path: Path) -> None:
    with proxy(vllm_server, tmp_path) as running:
        client = client_of(running)
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "x"}])
        assert client.models.list().data[0].id == "small"
    (kept,) = read_journals(tmp_path).exchanges
    assert kept.status == 404


def test_turns_are_replayed_as_chats_and_as_raw_prompts(vllm_server: str, smollm2: Path, tmp_path: Path) -> None:
    """Two tool-call turns: chats by the server's own template, raw prompts by one that shows the model its tools."""
    tokens = 16
    session = tmp_path / "session.json"
    session.write_bytes(build_session("lab-short", 5, ["ask-lookup", "ask-setting"]).to_json())
    template = ROOT / "workloads" / "netops-lab" / "chatml-tools.jinja"

    def asked(*more: str) -> ReplaysRecord:
        arguments = ["--endpoint", f"{vllm_server}/v1", "--session", str(session), "--max-tokens", str(tokens)]
        found = CliRunner().invoke(replay, [*arguments, "--json", "-q", *more], catch_exceptions=False)
        assert found.exit_code == 0, found.stderr
        return parse_replays(found.stdout.encode())

    raw = ("--api", "completions", "--tokenizer", str(smollm2), "--chat-template", str(template))
    chat, whole, ids = asked(), asked("--no-stream"), asked(*raw)
    text = asked(*raw, "--prompt-text", "--no-stream")
    assert [run.name for record in (chat, whole, ids, text) for run in record.runs] == ["small"] * 4
    for record in (chat, whole, ids, text):
        assert [answer.message for answer in record.runs[0].answers] == [turn.message for turn in record.turns]
        assert all(answer.ending in ("stop", "truncated") for answer in record.runs[0].answers)
        assert 0 < (record.runs[0].generated_tokens or 0) <= 2 * tokens
    assert ids.format == text.format == "qwen_xml"
    assert [a.token_ids for a in ids.runs[0].answers] == [a.token_ids for a in text.runs[0].answers]
    assert all(answer.token_ids for answer in ids.runs[0].answers)
