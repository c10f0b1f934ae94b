"""Bundles with any number of branching futures, from a published ledger: rows drawn again, a fork for each flip."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from suite.branch.counts import count_branches
from suite.branch.parts import Branching
from suite.branch.schema import BranchRun, Consequence, Fork, ForkPolicy, Future, TopToken
from suite.bundle.read import open_bundle
from suite.bundle.schema import folder_name, seal
from suite.files import canonical_json, sha256_bytes
from suite.grade.record import CallRecord, LiteralsRecord
from suite.manifest.lock import parse_lock
from suite.score.classes import FLIP_CLASSES
from suite.score.ledger import Ledger, LedgerFacts, read_ledger, write_ledger
from suite.score.summary import summarise

SOURCE = Path(__file__).parents[2] / "results" / "h200-smollm2-w4a16-g64"
HOSTILE = '<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">'
RIGHT, WRONG = "GigabitEthernet0/0/1", "GigabitEthernet0/0/1.201"


def branched_bundle(
    results: Path,
    *,
    num_probes: int,
    num_flips: int,
    name: str = "branched",
    seed: int = 1,
    texts: str = " next",
    factor: str = "",
    log: bytes = b"",
) -> Path:
    """Write a bundle whose every flip was followed.

    Args:
        results: Where it is to lie, with a folder for its name.
        num_probes: Every second token of the session is one.
        num_flips: Of these.
        name: Of the bundle.
        seed: Of the rows that are drawn.
        texts: What the tokens of futures spell, over and over.
        factor: What the record says that the candidate has in place of the reference's setting.
        log: The engine's.
    """
    source = open_bundle(next(SOURCE.iterdir()))
    ledger = _drawn(read_ledger(source.folder / "ledger.parquet"), num_probes, num_flips, seed)
    lock = source.lock().to_json() | {"name": name}
    lock["workload"] = lock["workload"] | {"num_tokens": ledger.facts.num_tokens, "tokens_sha256": "ab" * 32}
    lock["branches"] = {"policy": "flips", "max_new_tokens": 64}
    parsed = parse_lock(canonical_json(lock), where="lock")
    created = source.record.created
    folder = results / name / folder_name(created=created, lock_digest=parsed.digest)
    shutil.copytree(source.folder, folder)
    write_ledger(folder / "ledger.parquet", [ledger.columns], ledger.facts)
    (folder / "lock.json").write_bytes(parsed.to_bytes())
    policy = ForkPolicy(classes=FLIP_CLASSES, max_per_class=None, max_new_tokens=64)
    rows = np.flatnonzero(ledger.columns["flip"]).tolist()
    forks = tuple(_fork(ledger, row, place, texts) for place, row in enumerate(rows))
    run = BranchRun(
        name=name, lock_digest=parsed.digest, max_num_seqs=16, requested={}, effective={}, engine="0.25.1",
        num_roots=1, num_futures=1, prompt_tokens=16, cached_tokens=8, new_tokens=3, seconds=0.5,
    )  # fmt: skip
    branching = Branching(
        policy=policy, tool_format=None, end_token_ids=(2,), stop_texts=(), candidate=run, reference=run, forks=forks,
        engine_logs="",
    )  # fmt: skip
    _, packed = branching.packed()
    for file, data in packed.items():
        (folder / file).write_bytes(data)
    record = json.loads((folder / "bundle.json").read_bytes())
    record.pop("record_sha256")
    record |= {
        "name": name,
        "lock_digest": parsed.digest,
        "headlines": summarise(ledger).model_dump(mode="json"),
        "branches": count_branches(ledger, policy, forks).model_dump(mode="json"),
        "off_policy": summarise(ledger).off_policy.model_dump(mode="json"),
        "band": [],
    }
    rows_hash = sha256_bytes(ledger.columns["ref_row_sha256"].tobytes())
    record["evidence"]["reference"]["rows_sha256"] = rows_hash
    if factor:
        record["factors"][0]["candidate"] = factor
    if log:
        (folder / "engine.log").write_bytes(log)
    names = [path.name for path in folder.iterdir() if path.name != "bundle.json"]
    record["files"] = {file: sha256_bytes((folder / file).read_bytes()) for file in sorted(names)}
    (folder / "bundle.json").write_bytes(seal(record))
    return folder


def _drawn(source: Ledger, num_probes: int, num_flips: int, seed: int) -> Ledger:
    rng = np.random.default_rng(seed)
    flips, rest = (np.flatnonzero(source.columns["flip"] == value) for value in (True, False))
    rows = np.concatenate([rng.choice(flips, num_flips), rng.choice(rest, num_probes - num_flips)])
    rng.shuffle(rows)
    columns = {name: values[rows].copy() for name, values in source.columns.items()}
    positions = np.arange(num_probes, dtype=np.int64) * 2 + 1
    columns["position"] = positions
    columns["window"] = (positions // 8000).astype(np.int32)
    columns["turn"] = (positions * 60 // (2 * num_probes)).astype(np.int32)
    columns["span_kind"] = np.array(["assistant_output"] * num_probes)
    facts = LedgerFacts(
        tokens_sha256="ab" * 32,
        num_tokens=2 * num_probes + 2,
        vocab_size=source.facts.vocab_size,
        path=source.facts.path,
        ref_dtype=source.facts.ref_dtype,
        cand_dtype=source.facts.cand_dtype,
    )
    return Ledger(facts=facts, columns=columns)


def _fork(ledger: Ledger, row: int, place: int, texts: str) -> Fork:
    c = {name: values[row] for name, values in ledger.columns.items()}
    ours, theirs = int(c["ref_top1"]), int(c["cand_top1"])
    harmed = place % 3 == 0
    detail = f"{WRONG} stands for {RIGHT}" if harmed else ""
    consequence = Consequence(name="wrong literal" if harmed else "other words", detail=detail)
    return Fork(
        position=int(c["position"]),
        flip_class=str(c["flip_class"]),  # type: ignore[arg-type]
        turn=int(c["turn"]),
        span_kind=str(c["span_kind"]),
        target_id=int(c["target_id"]),
        turn_text=f"I look at {RIGHT}. ",
        recorded_text=" and go on.",
        reference_top=(_top(ours, " right", c["ref_p_ref_top1"]), _top(theirs, " wrong", c["ref_p_cand_top1"])),
        candidate_top=(_top(theirs, " wrong", c["cand_p_cand_top1"]), _top(ours, " right", c["cand_p_ref_top1"])),
        futures=(
            _future("reference", ours, [" right", " show ", RIGHT, *[texts] * 8], harmed=False),
            _future("reference_candidate_token", theirs, [" wrong", " show ", RIGHT, *[texts] * 4], harmed=False),
            _future(
                "candidate", theirs, [" wrong", " show ", WRONG if harmed else RIGHT, *[texts] * 12], harmed=harmed
            ),
        ),
        consequence=consequence,
        token_consequence=consequence,
    )


def _top(token_id: int, text: str, p: Any) -> TopToken:
    return TopToken(id=token_id, text=text, p=float(p))


def _future(role: str, first: int, texts: list[str], *, harmed: bool) -> Future:
    literals = LiteralsRecord(
        intact=() if harmed else (RIGHT,), missing=(), mutated=((RIGHT, WRONG),) if harmed else (), invented=()
    )
    call = CallRecord(
        closed=True, parsed=True, name="device_show", known_name=True, schema_valid=True, arguments={},
        literals=literals, verdict="literals changed" if harmed else "ok", first_fault=None,
    )  # fmt: skip
    return Future(
        role=role,  # type: ignore[arg-type]
        first_token_id=first,
        engine_token_id=None if role == "reference_candidate_token" else first,
        finish="turn_end",
        token_ids=(first, *range(100, 99 + len(texts))),
        token_texts=tuple(texts),
        states="",
        batch=0,
        order=0,
        cached_tokens=4,
        verdict=call.verdict,
        calls=(call,),
    )
