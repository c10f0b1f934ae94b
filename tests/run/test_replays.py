"""Turn replay against a real server: vLLM's own, on the small model."""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.cli.replay import replay
from suite.replay.schema import ReplaysRecord, parse_replays
from suite.workload.synthesize import build_session
from tests.agent_stack import ROOT

pytestmark = pytest.mark.vllm

TOKENS = 16
TEMPLATE = ROOT / "workloads" / "netops-lab" / "chatml-tools.jinja"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short session of the laboratory with two tool-call turns."""
    path = tmp_path_factory.mktemp("session") / "session.json"
    path.write_bytes(build_session("lab-short", 5, ["ask-lookup", "ask-setting"]).to_json())
    return path


@pytest.fixture(scope="module")
def server(session: Path, vllm_python: Path, smollm2: Path) -> Iterator[str]:
    """vLLM's own OpenAI-compatible server on the small model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    flags = {
        "--model": str(smollm2),
        "--served-model-name": "small",
        "--host": "127.0.0.1",
        "--port": str(port),
        "--max-model-len": "4096",
        "--max-num-seqs": "2",
        "--dtype": "float32",
        "--chat-template": str(TEMPLATE),
        "--tool-call-parser": "qwen3_coder",
    }
    arguments = [text for pair in flags.items() for text in pair]
    log = session.with_name("server.log")
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [
                str(vllm_python), "-P", "-m", "vllm.entrypoints.openai.api_server", *arguments, "--enforce-eager",
                "--enable-auto-tool-choice",
            ],
            env=os.environ | variables,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        url = f"http://127.0.0.1:{port}/v1"
        try:
            for _ in range(600):
                assert child.poll() is None, log.read_text()[-3000:]
                try:
                    urllib.request.urlopen(f"{url}/models", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield url
        finally:
            os.killpg(child.pid, 15)
            child.wait(60)


def test_a_real_server_answers_chats_and_raw_prompts(server: str, session: Path, smollm2: Path) -> None:
    def asked(*more: str) -> ReplaysRecord:
        arguments = ["--endpoint", server, "--session", str(session), "--max-tokens", str(TOKENS), "--json", "-q"]
        found = CliRunner().invoke(replay, [*arguments, *more], catch_exceptions=False)
        assert found.exit_code == 0, found.stderr
        return parse_replays(found.stdout.encode())

    raw = ("--api", "completions", "--tokenizer", str(smollm2), "--chat-template", str(TEMPLATE))
    chat, whole, ids = asked(), asked("--no-stream"), asked(*raw)
    text = asked(*raw, "--prompt-text", "--no-stream")
    assert [run.name for record in (chat, whole, ids, text) for run in record.runs] == ["small"] * 4
    for record in (chat, whole, ids, text):
        assert [answer.message for answer in record.runs[0].answers] == [turn.message for turn in record.turns]
        assert all(answer.ending in ("stop", "truncated") for answer in record.runs[0].answers)
        assert 0 < (record.runs[0].generated_tokens or 0) <= 2 * TOKENS
    assert ids.format == text.format == "qwen_xml"
    assert [a.token_ids for a in ids.runs[0].answers] == [a.token_ids for a in text.runs[0].answers]
    assert all(answer.token_ids for answer in ids.runs[0].answers)
