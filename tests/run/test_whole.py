"""`suite run` on a real stack, whole: interrupted, resumed by two processes, its flips followed, its turns replayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.branch.schema import ENDED
from suite.bundle.branches import BundleBranches, read_branches
from suite.bundle.read import Bundle, open_bundle
from suite.bundle.replays import read_replays
from suite.bundle.report import Report
from suite.bundle.verify import verify_bundle
from suite.files import sha256_file
from suite.replay.schema import ReplaysRecord, parse_replays
from suite.run.branching import CPU_BLOCK_TOKENS
from suite.score.ledger import read_ledger
from suite.workload.synthesize import build_session
from tests.agent.test_faults import wait_for
from tests.agent_stack import ROOT, leftovers
from tests.run.world import write_manifest, write_repository

pytestmark = pytest.mark.vllm

BRANCHES = {"policy": "flips", "max_new_tokens": 48, "max_per_class": 6}
# What both settings ask of two stacks is in test_replay_settings.py, without an engine.
REPLAY = {
    "settings": ["serve"],
    "samples": 1,
    "temperature": "0.7",
    "max_new_tokens": 12,
    "follow_steps": 1,
    "prefix_caching": True,
}
# The start, for its chunks are there before the rest is read, and everything from the first question on.
RANGES = [[1, 130], [1139, 1388]]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """Where things are: blanks and umlauts in every path."""

    root: Path
    home: Path
    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`suite` with these arguments."""
        # A shell that starts this in the background has SIGINT ignored, which children inherit.
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code += "from suite.cli.main import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=self.environment,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> subprocess.Popen[str]:
        """`suite run` of the candidate."""
        return self.start("run", "manifests/small-int8.yaml", "--repeats", "1", "--jobs", "1", *arguments)

    def processes(self) -> list[str]:
        """Commands that name the state folder."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(self.home) in command:
                found.append(command.replace(b"\0", b" ").decode())
        return found

    def made(self) -> dict[Path, int]:
        """What engines have made, and when: captures, futures and answers."""
        names = ("captures/*/start-*/index.json", "branches/*/futures.json", "replays/*.json")
        return {path: path.stat().st_mtime_ns for name in names for path in self.home.glob(name)}


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """A run that Ctrl-C has ended while its reference was captured."""

    exit_code: int
    said: str
    processes: list[str]
    made: dict[Path, int]
    chunks: dict[Path, int]


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Two runs that went on from there, at the same time."""

    bundles: tuple[Bundle, Bundle]
    said: str
    processes: list[str]
    made: dict[Path, int]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, smollm2: Path, smollm2_int8: Path, vllm_python: Path) -> Lab:
    """Two stacks over a session of the laboratory with two tool-call turns."""
    base = tmp_path_factory.mktemp("whole")
    root, home = base / "Prüfstand eins", base / "Zustand zwei"
    write_repository(root, smollm2, smollm2_int8)
    session = build_session("lab-short", 5, ["ask-lookup", "ask-setting"])
    (root / "workloads" / "lab").mkdir()
    (root / "workloads" / "lab" / "session.json").write_bytes(session.to_json())
    common = {"workload.session": "workloads/lab/session.json", "capture.stride": None, "capture.ranges": RANGES}
    write_manifest(root, "small-fp32", smollm2, **common)
    asked = {"branches": BRANCHES, "replay": REPLAY, "serve": {"max_num_seqs": 2}}
    write_manifest(root, "small-int8", smollm2_int8, role="candidate", **asked, **common)
    environment = os.environ | {
        "SUITE_HOME": str(home),
        "SUITE_VLLM_PYTHON": str(vllm_python),
        "PYTHONPATH": str(ROOT),
    }
    return Lab(root=root, home=home, environment=environment)


@pytest.fixture(scope="module")
def interrupted(lab: Lab) -> Interrupted:
    run = lab.run("--results", "none")
    wait_for(lambda: list(lab.home.glob("captures/*/start-0/chunk-00003.safetensors")), seconds=300)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    chunks = lab.home.glob("captures/*/start-0/chunk-00000.safetensors")
    return Interrupted(
        exit_code=run.returncode,
        said=said,
        processes=lab.processes(),
        made=lab.made(),
        chunks={path: path.stat().st_mtime_ns for path in chunks},
    )


@pytest.fixture(scope="module")
def resumed(lab: Lab, interrupted: Interrupted) -> Resumed:
    runs = [lab.run("--resume", "--json", "--results", name) for name in ("one", "two")]
    answers = [run.communicate(timeout=900) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], answers
    one, two = (open_bundle(lab.root / json.loads(out)["measured"][0]["bundle"]) for out, _ in answers)
    said = "".join(told for _, told in answers)
    return Resumed(bundles=(one, two), said=said, processes=lab.processes(), made=lab.made())


@pytest.fixture(scope="module")
def bundle(resumed: Resumed) -> Bundle:
    return resumed.bundles[0]


@pytest.fixture(scope="module")
def report(bundle: Bundle, lab: Lab) -> Report:
    return verify_bundle(bundle.folder, captures=lab.home / "captures", root=lab.root)


@pytest.fixture(scope="module")
def branches(bundle: Bundle) -> BundleBranches:
    found = read_branches(bundle)
    assert found is not None
    return found


def replays_of(bundle: Bundle) -> ReplaysRecord:
    record = read_replays(bundle)
    assert record is not None
    return record


def test_an_interrupted_run_keeps_whole_chunks_and_leaves_nothing_running(interrupted: Interrupted) -> None:
    assert interrupted.exit_code == 130, interrupted.said
    assert "--resume" in interrupted.said
    assert "Traceback" not in interrupted.said
    assert interrupted.processes == []
    assert interrupted.made == {}
    assert len(interrupted.chunks) == 1


def test_two_processes_resume_it_and_make_everything_once(interrupted: Interrupted, resumed: Resumed, lab: Lab) -> None:
    assert "resuming after" in resumed.said
    assert "waiting for another process that makes start-0" in resumed.said
    assert "futures of an earlier run" in resumed.said
    assert "answers of an earlier replay" in resumed.said
    for path, written in interrupted.chunks.items():
        assert path.stat().st_mtime_ns == written
    # Captures, futures and answers of both sides.
    kinds = [path.relative_to(lab.home).parts[0] for path in resumed.made]
    assert sorted(kinds) == ["branches"] * 2 + ["captures"] * 2 + ["replays"] * 2
    one, two = resumed.bundles
    for name in ("ledger.parquet", "branches.jsonl.gz"):
        assert sha256_file(one.folder / name) == sha256_file(two.folder / name)
    assert replays_of(one) == replays_of(two)
    assert one.record.headlines.n > 300
    assert 0 < one.record.headlines.flips < one.record.headlines.n // 2
    assert leftovers(lab.home / "captures") == []
    assert resumed.processes == []


def test_flips_are_followed_in_both_stacks_to_real_ends(bundle: Bundle, branches: BundleBranches) -> None:
    assert bundle.record.branches is not None
    assert bundle.record.branches.followed == len(branches.forks) > 3
    assert bundle.record.branches.used > 0
    assert any(future.finish in ENDED for fork in branches.forks for future in fork.futures)
    used = [fork for fork in branches.forks if fork.used]
    assert all(len(fork.futures) == 3 for fork in used)
    # A future goes on until it ends or the cap cuts it.
    for fork in used:
        for future in fork.futures:
            assert future.finish in ENDED or len(future.token_ids) == BRANCHES["max_new_tokens"]


def test_forks_are_the_flips_of_the_ledger_in_the_assistants_output(bundle: Bundle, branches: BundleBranches) -> None:
    columns = read_ledger(bundle.folder / "ledger.parquet").columns
    rows = {int(p): i for i, p in enumerate(columns["position"])}
    for fork in branches.forks:
        row = rows[fork.position]
        assert columns["flip"][row]
        assert fork.recorded_text
        assert [future.first_token_id for future in fork.futures][-1] == columns["cand_top1"][row]


def test_the_history_of_the_forks_is_computed_once(branches: BundleBranches) -> None:
    deepest = branches.forks[-1].position + 1
    for side in (branches.record.candidate, branches.record.reference):
        assert side is not None
        assert side.effective["enable_prefix_caching"] is True
        computed = side.prompt_tokens - side.cached_tokens
        # Once the whole, then at most a block and the fork's own token for every request.
        assert computed <= deepest + (side.num_roots + side.num_futures) * (CPU_BLOCK_TOKENS + 1)


def test_everything_is_verified_again_from_session_and_captures(report: Report) -> None:
    checks = {check.name: check for check in report.checks}
    assert checks["branches"].outcome == "passed", checks["branches"].detail
    assert "every verdict recomputed" in checks["branches"].detail
    assert "best tokens from 2 of 2 captures" in checks["branches"].detail
    assert checks["replays"].outcome == "passed", checks["replays"].detail
    assert "every verdict recomputed" in checks["replays"].detail


def test_turns_are_answered_by_both_stacks_as_each_is_served(bundle: Bundle) -> None:
    record = replays_of(bundle)
    assert [(run.side, run.settings, run.max_num_seqs) for run in record.runs] == [
        ("candidate", "serve", 2),
        ("reference", "serve", 1),
    ]
    assert (record.format, len(record.turns), len(record.headlines)) == ("qwen_xml", 2, 2)
    limit = REPLAY["max_new_tokens"]
    for run in record.runs:
        assert run.effective["enable_prefix_caching"] is True
        for answer, turn in zip(run.answers, [turn for turn in record.turns for _ in range(2)], strict=True):
            assert 0 < len(answer.token_ids or ()) <= limit
            assert answer.ending == ("stop" if len(answer.token_ids or ()) < limit else answer.ending)
            # All but the last block of the history came from the cache.
            assert turn.prompt_tokens is not None
            assert turn.prompt_tokens - 1024 < (answer.cached_tokens or 0) < turn.prompt_tokens
            assert (answer.followed is None) == (answer.mode == "sampled")


def test_the_first_token_of_an_answer_is_the_one_that_the_capture_has(bundle: Bundle) -> None:
    record = replays_of(bundle)
    columns = read_ledger(bundle.folder / "ledger.parquet").columns
    run = record.run_of("reference", "serve")
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


def test_the_command_finds_the_answers_of_the_run(bundle: Bundle, resumed: Resumed, lab: Lab) -> None:
    command = lab.start("replay", "manifests/small-int8.yaml", "--json", "-q")
    found, said = command.communicate(timeout=300)
    assert command.returncode == 0, said
    assert parse_replays(found.encode()) == replays_of(bundle)
    assert lab.made() == resumed.made
