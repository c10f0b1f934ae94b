"""Turn replay on a real stack: in a run, from the command, and against a real server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.bundle.read import open_bundle
from suite.bundle.replays import read_replays
from suite.bundle.verify import verify_bundle
from suite.replay.schema import ReplaysRecord, parse_replays
from suite.score.ledger import read_ledger
from suite.workload.synthesize import build_session
from tests.agent_stack import ROOT
from tests.run.world import write_manifest, write_repository

pytestmark = pytest.mark.vllm

TOKENS = 24
REPLAY = {
    "settings": ["measure", "serve"],
    "samples": 1,
    "temperature": "0.7",
    "max_new_tokens": TOKENS,
    "follow_steps": 1,
    "prefix_caching": True,
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Path:
    """Two stacks over a short session of the laboratory with two tool-call turns."""
    root = tmp_path_factory.mktemp("replay")
    write_repository(root, smollm2)
    folder = root / "workloads" / "lab"
    folder.mkdir()
    (folder / "session.json").write_bytes(build_session("lab-short", 5, ["ask-lookup", "ask-vlan"]).to_json())
    common = {"workload.session": "workloads/lab/session.json", "engine.max_model_len": 4096, "capture.stride": 1}
    write_manifest(root, "small-bf16", smollm2, **common)
    write_manifest(
        root,
        "small-kv-fp8",
        smollm2,
        role="candidate",
        **{"engine.kv_cache_dtype": "fp8_e4m3", "replay": REPLAY, "serve": {"max_num_seqs": 2}} | common,
    )
    return root


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, vllm_python: Path) -> dict[str, str]:
    return os.environ | {
        "SUITE_HOME": str(tmp_path_factory.mktemp("home")),
        "SUITE_VLLM_PYTHON": str(vllm_python),
        "PYTHONPATH": str(ROOT),
    }


def suite(repository: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from suite.cli.main import main; main()", *arguments],
        env=environment,
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bundle(repository: Path, environment: dict[str, str]) -> Path:
    found = suite(repository, environment, "run", "manifests/small-kv-fp8.yaml", "--repeats", "1", "--json")
    (measured,) = json.loads(found)["measured"]
    return repository / str(measured["bundle"])


def replays_of(bundle: Path) -> ReplaysRecord:
    record = read_replays(open_bundle(bundle))
    assert record is not None
    return record


def test_a_run_with_replay_leaves_answers_of_both_stacks_under_both_settings(bundle: Path, repository: Path) -> None:
    record = replays_of(bundle)
    assert [(run.side, run.settings, run.max_num_seqs) for run in record.runs] == [
        ("candidate", "measure", 1),
        ("reference", "measure", 1),
        ("candidate", "serve", 2),
        ("reference", "serve", 1),
    ]
    assert (record.format, len(record.turns), len(record.headlines)) == ("qwen_xml", 2, 4)
    for run in record.runs:
        assert run.effective["enable_prefix_caching"] is True
        for answer, turn in zip(run.answers, [turn for turn in record.turns for _ in range(2)], strict=True):
            assert 0 < len(answer.token_ids or ()) <= TOKENS
            assert answer.ending == ("stop" if len(answer.token_ids or ()) < TOKENS else answer.ending)
            # All but the last block of the history came from the cache.
            assert turn.prompt_tokens is not None
            assert turn.prompt_tokens - 1024 < (answer.cached_tokens or 0) < turn.prompt_tokens
            assert (answer.followed is None) == (answer.mode == "sampled")
    checks = {check.name: check for check in verify_bundle(bundle, root=repository).checks}
    assert checks["replays"].outcome == "passed"
    assert "every verdict recomputed" in checks["replays"].detail


def test_the_first_token_is_the_one_that_the_capture_has(bundle: Path) -> None:
    record = replays_of(bundle)
    columns = read_ledger(bundle / "ledger.parquet").columns
    run = record.run_of("reference", "measure")
    assert run is not None
    compared = 0
    for answer in (answer for answer in run.answers if answer.mode == "greedy"):
        turn = next(turn for turn in record.turns if turn.message == answer.message)
        assert turn.prompt_tokens is not None
        (row,) = (columns["position"] == turn.prompt_tokens - 1).nonzero()[0]
        if columns["ref_margin_nats"][row] > 0.2:  # less may turn with the chunks in which the cache was filled
            assert answer.token_ids is not None
            assert answer.token_ids[0] == columns["ref_top1"][row]
            compared += 1
    assert compared


def test_the_command_finds_the_answers_of_the_run(bundle: Path, repository: Path, environment: dict[str, str]) -> None:
    kept = {path: path.stat().st_mtime_ns for path in Path(environment["SUITE_HOME"]).glob("replays/*.json")}
    assert len(kept) == 3  # the reference is served as it is measured: one replay is both
    found = suite(repository, environment, "replay", "manifests/small-kv-fp8.yaml", "--json", "-q")
    assert parse_replays(found.encode()) == replays_of(bundle)
    assert kept == {path: path.stat().st_mtime_ns for path in Path(environment["SUITE_HOME"]).glob("replays/*.json")}


@pytest.fixture(scope="module")
def server(repository: Path, vllm_python: Path, smollm2: Path) -> Iterator[str]:
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
        "--dtype": "bfloat16",
        "--chat-template": str(repository / "workloads" / "chatml-tools.jinja"),
        "--tool-call-parser": "qwen3_coder",
    }
    arguments = [text for pair in flags.items() for text in pair]
    log = repository / "server.log"
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


def test_a_real_server_answers_chats_and_raw_prompts(
    server: str, repository: Path, environment: dict[str, str], smollm2: Path
) -> None:
    asked = ["replay", "--endpoint", server, "--session", "workloads/lab/session.json", "--max-tokens", str(TOKENS)]
    asked += ["--json", "-q"]
    raw = ["--api", "completions", "--tokenizer", str(smollm2), "--chat-template", "workloads/chatml-tools.jinja"]
    chat = parse_replays(suite(repository, environment, *asked).encode())
    whole = parse_replays(suite(repository, environment, *asked, "--no-stream").encode())
    ids = parse_replays(suite(repository, environment, *asked, *raw).encode())
    text = parse_replays(suite(repository, environment, *asked, *raw, "--prompt-text", "--no-stream").encode())
    assert [run.name for record in (chat, whole, ids, text) for run in record.runs] == ["small"] * 4
    for record in (chat, whole, ids, text):
        assert [answer.message for answer in record.runs[0].answers] == [turn.message for turn in record.turns]
        assert all(answer.ending in ("stop", "truncated") for answer in record.runs[0].answers)
        assert 0 < (record.runs[0].generated_tokens or 0) <= 2 * TOKENS
    assert ids.format == text.format == "qwen_xml"
    assert [a.token_ids for a in ids.runs[0].answers] == [a.token_ids for a in text.runs[0].answers]
    assert all(answer.token_ids for answer in ids.runs[0].answers)
