"""What becomes public with a submission: every file, its size, and what it reveals, in words for its owner."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.branch.schema import BRANCHES_NAME, FORKS_NAME
from suite.bundle.arbiter import ARBITER_NAME
from suite.bundle.schema import RECORD_NAME
from suite.image.facts import FACTS_NAME
from suite.replay.schema import REPLAYS_NAME
from suite.signing import STATEMENT_NAMES
from suite.submission.schema import AGGREGATES_NAME, COMMITMENT_NAME, SUBMISSION_NAME, EvidencePacks

TEXT = "THE SESSION'S TEXT"
_REVEALS = {
    SUBMISSION_NAME: "licence, your key's id, your note",
    AGGREGATES_NAME: "counts and sums of each turn, and the stack; of the session its turns and their lengths, no text",
    COMMITMENT_NAME: "hashes of ledger and rows",
    RECORD_NAME: "headline counts, factors, hashes of all files",
    "manifest.yaml": "the stack as you wrote it, with your comments",
    "lock.json": "the stack by hash; digests of the session",
    "reference-lock.json": "the reference's stack by hash",
    "receipt.json": "your machine: processor or GPU, driver, versions, environment settings",
    "reference-receipt.json": "the reference's machine, likewise",
    "ledger.parquet": f"{TEXT}: ids of its tokens, which any tokenizer of the model turns into words",
    "repeats.json": "token ids at which fresh starts differ",
    "performance.json": "times and memory of the run",
    "engine.log": "the engine's log, redacted: when it ran, settings, warnings",
    "sbom.cdx.json": "every package of the stack, with its version",
    ARBITER_NAME: "token ids at the flips",
    FACTS_NAME: "the image by digest",
    BRANCHES_NAME: "counts of what became of flips",
    FORKS_NAME: f"{TEXT} around flips, and what the stacks wrote on from there",
    REPLAYS_NAME: f"{TEXT}: its tool calls, and what the stacks answered",
    **dict.fromkeys(STATEMENT_NAMES, "who signed, and every file's hash"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Disclosure:
    """One thing that becomes public."""

    what: str
    """A file, relative to the submission, or an address."""
    size_bytes: int
    reveals: str


def disclosures(folder: Path) -> tuple[Disclosure, ...]:
    """Every file below a submission's folder, largest first."""
    found = [
        Disclosure(
            what=path.relative_to(folder).as_posix(), size_bytes=path.stat().st_size, reveals=_REVEALS[path.name]
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return tuple(sorted(found, key=lambda one: (-one.size_bytes, one.what)))


def evidence_disclosures(packs: EvidencePacks | None) -> tuple[Disclosure, ...]:
    """What stands at the addresses that a submission names."""
    sides = () if packs is None else (packs.reference, packs.candidate)
    return tuple(
        Disclosure(what=pack.url, size_bytes=pack.size_bytes, reveals=f"{TEXT}: hidden states and rows give it back")
        for pack in sides
        if pack is not None
    )
