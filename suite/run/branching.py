"""The stage after scoring: both stacks go on from the flips of a ledger, each in one more start of its engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from suite.agent.branch import RESULT_NAME, SCHEMA_VERSION
from suite.branch.assemble import Side, assemble
from suite.branch.candidates import top_tokens
from suite.branch.grader import Grader
from suite.branch.judge import Judge, session_format
from suite.branch.parts import Branching
from suite.branch.schema import BranchRun
from suite.branch.select import choose_forks, fork_policy
from suite.capture.store import Capture
from suite.errors import RunFailed
from suite.files import canonical_json, read_json, sha256_bytes
from suite.model.store import only_process
from suite.observer import Observer
from suite.replay.rendering import end_token_ids, text_of
from suite.run.captures import Store, checked_inputs, write_tokens
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder
from suite.runtime.staging import agent_digest
from suite.score.ledger import Ledger
from suite.stack.engine_arguments import engine_arguments, expected_settings, stack_environment
from suite.workload.session import load_session
from suite.workload.tokenizer import load_tokenizer

BATCH_SIZE = 16
"""Futures of one stack at work together."""
CPU_BLOCK_TOKENS = 32
"""Tokens of a KV cache block on a CPU, where vLLM's own is 128: of each history all but the last block is shared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchTask:
    """What two captures are asked to be followed to."""

    stack: Stack
    """The candidate's."""
    reference: Stack | None
    """The reference's; None where it cannot be run here."""
    captures: Mapping[str, Capture]
    """`reference` and `candidate`."""
    ledger: Ledger


def branch_in_run(
    task: BranchTask,
    *,
    store: Store,
    pool: Executor,
    observer_for: Callable[[str], Observer],
    cancelled: threading.Event,
) -> Callable[[], Branching | None]:
    """Start to follow the flips that the candidate's manifest asks for.

    Args:
        task: Stacks, captures and their ledger.
        store: Finished runs are kept below its home and found again.
        pool: Both stacks' engines are submitted to it.
        observer_for: Progress.
        cancelled: Ends the wait for another process that follows the same forks.

    Returns:
        A function that waits for the futures and reads them; None of it where no flip is to be followed.
    """
    lock = task.stack.lock
    policy = fork_policy(lock.branches)
    rows = choose_forks(task.ledger, policy).rows
    if not rows:
        observer_for(task.stack.label).note("no flip of these classes in the assistant's output: nothing to follow")
        return lambda: None
    columns = task.ledger.columns
    positions = columns["position"][list(rows)].tolist()
    winners = {side: columns[name][list(rows)].tolist() for side, name in _WINNERS.items()}
    tokenizer = load_tokenizer(task.stack.model_folder)
    decode = partial(text_of, tokenizer)
    grader = Grader(
        session=load_session(task.stack.manifest.workload_file), format=session_format(task.stack.rendered, decode)
    )
    judge = Judge(rendered=task.stack.rendered, decode=decode, grader=grader)
    ends = end_token_ids(task.stack.model_folder, tokenizer, task.stack.rendered)
    work: dict[str, Any] = {
        "end_token_ids": list(ends),
        "stop_texts": list(judge.stop_texts),
        "max_new_tokens": policy.max_new_tokens,
    }

    def submit(side: str, stack: Stack) -> Any:
        given = list(zip(positions, winners["candidate"], strict=True)) if side == "reference" else []
        job = work | {"roots": list(zip(positions, winners[side], strict=True)), "given": given}
        return pool.submit(_run, stack, job, store, observer_for(f"{stack.label} branches"), cancelled)

    ours = submit("candidate", task.stack)
    theirs = None if task.reference is None else submit("reference", task.reference)

    def finish() -> Branching:
        candidate, reference = ours.result(), None if theirs is None else theirs.result()
        best = {
            side: top_tokens(capture, rows, lambda token: decode([token])) for side, capture in task.captures.items()
        }
        forks = assemble(
            task.ledger,
            rows,
            judge=judge,
            candidate=Side.of(candidate),
            reference=None if reference is None else Side.of(reference),
            top_tokens=best,
        )
        return Branching(
            policy=policy,
            tool_format=grader.format,
            end_token_ids=ends,
            stop_texts=judge.stop_texts,
            candidate=_record(task.stack, candidate),
            reference=None if task.reference is None or reference is None else _record(task.reference, reference),
            forks=forks,
            engine_logs="".join(result["log"] for result in (candidate, reference) if result is not None),
        )

    return finish


def branching_settings(stack: Stack) -> tuple[dict[str, Any], dict[str, Any]]:
    """Engine arguments and expected settings under which a stack branches: the capture's, with prefix caching on."""
    changes = {
        "enable_prefix_caching": True,
        "max_num_seqs": max(BATCH_SIZE, stack.lock.engine.max_num_seqs),
    }
    arguments = engine_arguments(stack.lock) | changes
    if stack.lock.hardware.kind == "cpu":
        arguments.setdefault("block_size", CPU_BLOCK_TOKENS)
    return arguments, expected_settings(stack.lock) | changes


_WINNERS = {"reference": "ref_top1", "candidate": "cand_top1"}


def _run(
    stack: Stack, job: dict[str, Any], store: Store, observer: Observer, cancelled: threading.Event
) -> dict[str, Any]:
    """One stack's futures: those of an earlier run of this very job, or new ones."""
    arguments, expect = branching_settings(stack)
    job = job | {"engine": arguments, "expect": expect, "batch_size": arguments["max_num_seqs"]}
    identity = {"stack": stack.lock.capture_digest, "agent": agent_digest(), "job": job}
    folder = store.home / "branches" / sha256_bytes(canonical_json(identity))
    with only_process(folder.with_suffix(".lock"), observer, cancelled=cancelled):
        if (folder / RESULT_NAME).is_file():
            observer.note("futures of an earlier run")
        else:
            write_tokens(folder / "inputs", stack)
            stack.runtime.call(_call(stack, job, folder), observer)
            observer.phase("")
        result = read_json(folder / RESULT_NAME)
    if not isinstance(result, dict) or result.get("schema_version") != SCHEMA_VERSION:
        raise RunFailed("not the futures of this version", where=str(folder), hint="delete the folder and run again")
    text = (folder / "engine.log").read_text(errors="replace")
    return result | {"requested": expect, "log": f"\n[branching: {stack.label}]\n{text}"}


def _call(stack: Stack, job: dict[str, Any], folder: Path) -> AgentCall:
    def request(paths: Mapping[str, str]) -> dict[str, Any]:
        return job | {
            "schema_version": SCHEMA_VERSION,
            **checked_inputs(stack.lock, paths),
        }

    return AgentCall(
        command="branch",
        folders={
            "out": Folder(host=folder, writable=True),
            "model": Folder(host=stack.model_folder),
            "inputs": Folder(host=folder / "inputs"),
        },
        request=request,
        environment=stack_environment(stack.lock),
    )


def _record(stack: Stack, result: Mapping[str, Any]) -> BranchRun:
    totals = result["totals"]
    return BranchRun(
        name=stack.lock.name,
        lock_digest=stack.lock.digest,
        max_num_seqs=result["requested"]["max_num_seqs"],
        requested=result["requested"],
        effective=result["effective"],
        engine=result["vllm"],
        num_roots=len(result["roots"]),
        num_futures=len(result["futures"]),
        prompt_tokens=totals["prompt_tokens"],
        cached_tokens=totals["cached_tokens"],
        new_tokens=totals["new_tokens"],
        seconds=round(sum(result["seconds"][phase] for phase in ("first tokens", "futures")), 3),
    )
