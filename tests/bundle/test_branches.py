"""Branching futures in a bundle: counts are computed, whatever is passed in, and every change is found."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest

from suite.branch.candidates import top_tokens
from suite.branch.parts import Branching
from suite.branch.schema import (
    BRANCHES_NAME,
    FORKS_NAME,
    BranchRun,
    Consequence,
    Fork,
    Future,
    TopToken,
    parse_branches,
)
from suite.branch.select import choose_forks, fork_policy
from suite.bundle.branches import read_branches
from suite.bundle.parts import BundleParts
from suite.bundle.read import open_bundle
from suite.bundle.schema import RECORD_NAME, seal
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.errors import VerificationFailed
from suite.files import canonical_json, sha256_bytes
from suite.manifest.lock import Lock, parse_lock
from suite.score.ledger import read_ledger
from tests.bundle.world import manifest_of


def with_policy(lock: Lock, **policy: Any) -> Lock:
    value = lock.to_json()
    return parse_lock(
        canonical_json(value | {"branches": {"policy": "flips", "max_new_tokens": 1024} | policy}), where=""
    )


def run_of(lock: Lock) -> BranchRun:
    settings = {"enable_prefix_caching": True, "kv_cache_dtype": lock.engine.kv_cache_dtype}
    return BranchRun(
        name=lock.name,
        lock_digest=lock.digest,
        max_num_seqs=16,
        requested=settings,
        effective=settings,
        engine="0.32.0",
        num_roots=1,
        num_futures=1,
        prompt_tokens=16,
        cached_tokens=8,
        new_tokens=3,
        seconds=0.5,
    )


def future(role: str, first: int, engine: int | None, rest: tuple[int, ...] = (1, 5)) -> Future:
    continued = engine in (None, first)
    ids = (first, *rest) if continued else (first,)
    return Future(
        role=role,  # type: ignore[arg-type]
        first_token_id=first,
        engine_token_id=engine,
        finish="turn_end" if continued else "not_continued",
        token_ids=ids,
        token_texts=tuple(f" {i}" for i in ids),
        states="o" * len(ids),
        batch=0,
        order=0,
        cached_tokens=4,
        verdict="no call" if continued else "truncated",
        calls=(),
    )


def parts_with_branches(world: Any, *, agrees: bool = True, **changes: Any) -> BundleParts:
    parts = world.parts()
    lock = with_policy(parts.lock)
    ledger = read_ledger(parts.ledger)
    policy = fork_policy(lock.branches)
    (row,) = choose_forks(ledger, policy).rows
    columns = {name: values[row] for name, values in ledger.columns.items()}
    ours, theirs = int(columns["ref_top1"]), int(columns["cand_top1"])
    futures = (
        future("reference", ours, ours),
        future("reference_candidate_token", theirs, None),
        future("candidate", theirs, theirs if agrees else ours),
    )
    told = Consequence(name="other words") if agrees else None
    fork = Fork(
        position=int(columns["position"]),
        flip_class=str(columns["flip_class"]),  # type: ignore[arg-type]
        turn=int(columns["turn"]),
        span_kind=str(columns["span_kind"]),
        target_id=int(columns["target_id"]),
        turn_text="",
        recorded_text=" 2",
        reference_top=top_tokens(parts.reference, [row], str)[0],
        candidate_top=top_tokens(parts.candidate, [row], str)[0],
        futures=futures,
        consequence=told,
        token_consequence=told,
    )
    branching = Branching(
        policy=policy,
        tool_format="qwen_xml",
        end_token_ids=(5,),
        stop_texts=("</tool_call>",),
        candidate=run_of(lock),
        reference=run_of(parts.reference_lock),
        forks=(fork.model_copy(update=changes),),
        engine_logs="\n[branching: fp8-kv]\nloaded /home/someone/models\n",
    )
    return replace(parts, lock=lock, manifest_yaml=manifest_of(lock), branching=branching)


def test_counts_are_computed_and_verified(world: Any) -> None:
    folder = write_bundle(parts_with_branches(world), results=world.results)
    record = open_bundle(folder).record
    assert record.branches is not None
    assert (record.branches.followed, record.branches.used) == (1, 1)
    assert sum(counts.consequences["other words"] for counts in record.branches.by_class) == 1
    assert sum(counts.outside_output for counts in record.branches.by_class) == 1
    report = verify_bundle(folder, captures=world.captures)
    (check,) = (check for check in report.checks if check.name == "branches")
    assert check.outcome == "passed"
    assert "best tokens from 2 of 2 captures" in check.detail
    assert report.failure is None


def test_the_engines_logs_are_redacted(world: Any) -> None:
    folder = write_bundle(parts_with_branches(world), results=world.results)
    assert (folder / "engine.log").read_text().endswith("[branching: fp8-kv]\nloaded ~/models\n")


def test_a_fork_whose_first_token_disagrees_is_counted_by_class_and_not_used(world: Any) -> None:
    record = open_bundle(write_bundle(parts_with_branches(world, agrees=False), results=world.results)).record
    assert record.branches is not None
    assert (record.branches.followed, record.branches.used) == (1, 0)
    assert sum(counts.candidate_mismatches for counts in record.branches.by_class) == 1


def test_a_bundle_without_branches_stays_as_it_was(world: Any) -> None:
    folder = write_bundle(world.parts(), results=world.results)
    assert "branches" not in json.loads((folder / RECORD_NAME).read_bytes())
    assert read_branches(open_bundle(folder)) is None
    assert "branches" not in [check.name for check in verify_bundle(folder).checks]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"consequence": Consequence(name="wrong literal")}, "does not follow from its futures"),
        ({"flip_class": "confident"}, "flip_class"),
        ({"turn": 0}, "turn"),
        ({"position": 3}, "no flip"),
    ],
)
def test_forks_that_do_not_follow_are_not_written(world: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(VerificationFailed, match=message):
        write_bundle(parts_with_branches(world, **changes), results=world.results)
    assert not list(world.results.rglob(RECORD_NAME))


def reseal(folder: Any, name: str, data: bytes, **fields: Any) -> None:
    """Change a file of a bundle and make its hashes right again, as a forger would."""
    (folder / name).write_bytes(data)
    value = json.loads((folder / RECORD_NAME).read_bytes())
    del value["record_sha256"]
    value["files"][name] = sha256_bytes(data)
    (folder / RECORD_NAME).write_bytes(seal(value | fields))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("consequence", "name"), "absorbed"),
        (("futures", 2, "states"), "ovo"),
        (("futures", 2, "first_token_id"), 4),
        (("candidate_top", 1, "p"), 0.0),
        (("recorded_text",), 7),
    ],
)
def test_a_forged_fork_is_found(world: Any, path: tuple[Any, ...], value: Any) -> None:
    folder = write_bundle(parts_with_branches(world), results=world.results)
    fork = json.loads(gzip.decompress((folder / FORKS_NAME).read_bytes()))
    target = fork
    for key in path[:-1]:
        target = target[key]
    assert target[path[-1]] != value
    target[path[-1]] = value
    if path[-1] == "first_token_id":
        target["token_ids"][0] = target["engine_token_id"] = value
    data = gzip.compress(json.dumps(fork).encode() + b"\n", mtime=0)
    record = json.loads((folder / BRANCHES_NAME).read_bytes())
    record["segments"][0]["size_bytes"] = len(data)
    reseal(folder, FORKS_NAME, data)
    reseal(folder, BRANCHES_NAME, parse_branches(json.dumps(record).encode()).to_bytes())
    failure = verify_bundle(folder, captures=world.captures).failure
    assert failure is not None
    assert failure.name == "branches"


def test_forged_counts_are_found(world: Any) -> None:
    folder = write_bundle(parts_with_branches(world), results=world.results)
    value = json.loads((folder / RECORD_NAME).read_bytes())["branches"]
    for counts in value["by_class"]:
        if counts["used"]:
            counts["consequences"] |= {"other words": 0, "absorbed": 1}
    reseal(folder, BRANCHES_NAME, (folder / BRANCHES_NAME).read_bytes(), branches=value)
    failure = verify_bundle(folder).failure
    assert failure is not None
    assert "does not follow from the forks" in failure.detail


def test_the_best_tokens_begin_with_the_winner(world: Any) -> None:
    wrong = (TopToken(id=0, text="0", p=0.9), TopToken(id=1, text="1", p=0.05))
    with pytest.raises(VerificationFailed, match="do not begin with the winner"):
        write_bundle(parts_with_branches(world, reference_top=wrong), results=world.results)
