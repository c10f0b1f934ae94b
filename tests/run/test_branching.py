"""Real flips of a real engine followed to their ends: two stacks over a session of the laboratory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from suite.branch.schema import ENDED, Fork
from suite.bundle.branches import BundleBranches, read_branches
from suite.bundle.read import Bundle, open_bundle
from suite.bundle.verify import verify_bundle
from suite.errors import SuiteError
from suite.files import sha256_file
from suite.observer import SilentObserver
from suite.run.branching import CPU_BLOCK_TOKENS
from suite.run.measure import measure
from suite.score.ledger import read_ledger
from suite.workload.synthesize import build_session
from tests.agent_stack import ROOT
from tests.run.world import write_manifest, write_repository

pytestmark = pytest.mark.vllm

BRANCHES = {"policy": "flips", "max_new_tokens": 96, "max_per_class": 6}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Path:
    root = tmp_path_factory.mktemp("branching")
    write_repository(root, smollm2)
    (root / "workloads" / "lab").mkdir()
    session = build_session("lab-short", 5, ["ask-lookup", "ask-vlan"])
    (root / "workloads" / "lab" / "session.json").write_bytes(session.to_json())
    common = {"workload.session": "workloads/lab/session.json", "engine.max_model_len": 4096, "capture.stride": 1}
    write_manifest(root, "small-bf16", smollm2, **common)
    changes = {"engine.kv_cache_dtype": "fp8_e4m3", "branches": BRANCHES} | common
    write_manifest(root, "small-kv-fp8", smollm2, role="candidate", **changes)
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def run(repository: Path, home: Path, vllm_python: Path) -> Path:
    """One run of the candidate's manifest; its bundle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUITE_HOME", str(home))
        patch.setenv("SUITE_VLLM_PYTHON", str(vllm_python))
        patch.chdir(repository)
        _, report = measure(
            [repository / "manifests" / "small-kv-fp8.yaml"],
            results=repository / "results",
            root=ROOT,
            observer_for=lambda _: SilentObserver(),
            cancelled=threading.Event(),
            repeats=1,
        )
    errors: dict[str, SuiteError] = report.failed
    assert not errors, errors
    (measured,) = report.measured
    assert measured.bundle is not None
    return measured.bundle


@pytest.fixture(scope="module")
def bundle(repository: Path, home: Path, vllm_python: Path) -> Bundle:
    return open_bundle(run(repository, home, vllm_python))


@pytest.fixture(scope="module")
def found(bundle: Bundle) -> BundleBranches:
    branches = read_branches(bundle)
    assert branches is not None
    return branches


def futures(forks: tuple[Fork, ...]) -> list[tuple[Fork, str]]:
    return [(fork, future.finish) for fork in forks for future in fork.futures]


def test_flips_are_followed_in_both_stacks_to_real_ends(bundle: Bundle, found: BundleBranches) -> None:
    assert bundle.record.branches is not None
    assert bundle.record.branches.followed == len(found.forks) > 3
    assert bundle.record.branches.used > 0
    ends = [finish for _, finish in futures(found.forks)]
    assert any(finish in ENDED for finish in ends)
    used = [fork for fork in found.forks if fork.used]
    assert all(len(fork.futures) == 3 for fork in used)
    # A future goes on until it ends or the cap cuts it.
    for fork in used:
        for future in fork.futures:
            assert future.finish in ENDED or len(future.token_ids) == BRANCHES["max_new_tokens"]


def test_forks_are_the_flips_of_the_ledger_in_the_assistants_output(bundle: Bundle, found: BundleBranches) -> None:
    columns = read_ledger(bundle.folder / "ledger.parquet").columns
    rows = {int(p): i for i, p in enumerate(columns["position"])}
    for fork in found.forks:
        row = rows[fork.position]
        assert columns["flip"][row]
        assert fork.recorded_text
        assert [future.first_token_id for future in fork.futures][-1] == columns["cand_top1"][row]


def test_everything_is_verified_again_from_session_and_captures(bundle: Bundle, repository: Path, home: Path) -> None:
    report = verify_bundle(bundle.folder, captures=home / "captures", root=repository)
    checks = {check.name: check for check in report.checks}
    assert checks["branches"].outcome == "passed", checks["branches"].detail
    assert "every verdict recomputed" in checks["branches"].detail
    assert "best tokens from 2 of 2 captures" in checks["branches"].detail


def test_the_history_is_computed_once(found: BundleBranches) -> None:
    deepest = found.forks[-1].position + 1
    for side in (found.record.candidate, found.record.reference):
        assert side is not None
        assert side.effective["enable_prefix_caching"] is True
        computed = side.prompt_tokens - side.cached_tokens
        # Once the whole, then at most a block and the fork's own token for every request.
        assert computed <= deepest + (side.num_roots + side.num_futures) * (CPU_BLOCK_TOKENS + 1)


def test_a_second_run_finds_its_futures_and_makes_the_same_file(
    bundle: Bundle, repository: Path, home: Path, vllm_python: Path
) -> None:
    again = run(repository, home, vllm_python)
    name = "branches.jsonl.gz"
    assert sha256_file(again / name) == sha256_file(bundle.folder / name)
