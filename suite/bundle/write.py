"""Writing a bundle: complete or absent, and never over another one."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

from suite.bundle.arbiter import ARBITER_NAME, arbitrate
from suite.bundle.branches import pack_branches
from suite.bundle.derive import contrast, evidence_of
from suite.bundle.parts import BundleParts
from suite.bundle.redact import redact
from suite.bundle.schema import RECORD_NAME, SCHEMA_VERSION, folder_name, seal, size_limit
from suite.capture.store import RECEIPT_NAME, Capture
from suite.errors import InvalidInput, VerificationFailed
from suite.files import pretty_json, sha256_bytes, strict_json
from suite.folders import whole_folder
from suite.image.facts import FACTS_NAME
from suite.manifest.arbiter import require_arbiter
from suite.replay.counts import headlines
from suite.replay.schema import REPLAYS_NAME
from suite.score.floor import floor_of
from suite.score.ledger import Ledger, read_ledger
from suite.score.summary import require_valid, summarise


def write_bundle(parts: BundleParts, *, results: Path) -> Path:
    """Write `results/<name>/<UTC stamp>-<lock digest 12>/` and return it.

    Everything is written to a hidden folder beside it, which is renamed at the end; what an earlier killed run left of
    that kind is removed.

    Raises:
        RunFailed: the ledger has rows that are not finite; nothing is written.
        InvalidInput: a bundle of this lock and second exists, or a part is larger than a bundle may hold.
        VerificationFailed: ledger, captures, receipts and locks do not belong together.
        MissingPrerequisite: the disk is full; nothing is left behind.
    """
    ledger = read_ledger(parts.ledger)
    headlines = summarise(ledger)
    require_valid(headlines)
    receipts = {name: _receipt(capture) for name, capture in _sides(parts).items()}
    evidence = {name: evidence_of(capture) for name, capture in _sides(parts).items()}
    _check_together(parts, ledger, {name: item.rows_sha256 for name, item in evidence.items()})
    stacks = contrast(
        parts.reference_lock,
        parts.lock,
        reference_receipt=_parsed(receipts["reference"]),
        candidate_receipt=_parsed(receipts["candidate"]),
    )
    files: dict[str, bytes] = {
        "manifest.yaml": parts.manifest_yaml,
        "lock.json": parts.lock.to_bytes(),
        "reference-lock.json": parts.reference_lock.to_bytes(),
        "receipt.json": receipts["candidate"],
        "reference-receipt.json": receipts["reference"],
        "ledger.parquet": parts.ledger.read_bytes(),
        "repeats.json": pretty_json(parts.repeats.model_dump(mode="json")),
        "performance.json": pretty_json(parts.performance),
        "engine.log": redact(_logs(parts), parts.private).encode(errors="replace"),
    }
    if parts.arbiter is not None:
        require_arbiter(parts.reference_lock, parts.lock, parts.arbiter.lock)
        record_of_arbiter = arbitrate(ledger, parts.arbiter.capture, parts.arbiter.lock)
        files[ARBITER_NAME] = pretty_json(record_of_arbiter.model_dump(mode="json"))
    branches: dict[str, Any] = {}
    if parts.branching is not None:
        counts, packed = pack_branches(parts.branching, ledger, lock=parts.lock, reference_lock=parts.reference_lock)
        branches["branches"] = counts.model_dump(mode="json")
        files |= packed
    if parts.replays is not None:
        files[REPLAYS_NAME] = parts.replays.to_bytes()
    if parts.sbom is not None:
        files["sbom.cdx.json"] = pretty_json(parts.sbom)
    if parts.image is not None:
        files[FACTS_NAME] = parts.image.to_bytes()
    for name, data in files.items():
        if len(data) > (size_limit(name) or 0):
            raise InvalidInput(f"{name} has {len(data):,} bytes, a bundle holds at most {size_limit(name):,} of it")
    created = parts.created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {
        "schema_version": SCHEMA_VERSION,
        "name": parts.lock.name,
        "tier": "self-reported",
        "created": created,
        "lock_digest": parts.lock.digest,
        "reference_lock_digest": parts.reference_lock.digest,
        "headlines": headlines.model_dump(mode="json"),
        "repeat_floor": floor_of(parts.repeats).model_dump(mode="json"),
        "band": [member.model_dump(mode="json") for member in parts.band],
        "factors": [factor.model_dump(mode="json") for factor in stacks.factors],
        "consequent": [factor.model_dump(mode="json") for factor in stacks.consequent],
        "causal_claim": stacks.causal_claim,
        "off_policy": headlines.off_policy.model_dump(mode="json"),
        **branches,
        **_replays(parts),
        "evidence": {name: item.model_dump(mode="json") for name, item in evidence.items()},
        "files": {name: sha256_bytes(data) for name, data in files.items()},
    }
    files[RECORD_NAME] = seal(record)
    final = results / parts.lock.name / folder_name(created=created, lock_digest=parts.lock.digest)
    _write_folder(final, files)
    return final


def _logs(parts: BundleParts) -> str:
    return parts.engine_log + ("" if parts.branching is None else parts.branching.engine_logs)


def _replays(parts: BundleParts) -> dict[str, Any]:
    if parts.replays is None:
        return {}
    # Computed from the answers like every headline, whatever the record says.
    return {"replays": [line.model_dump(mode="json") for line in headlines(parts.replays.runs)]}


def _sides(parts: BundleParts) -> dict[str, Capture]:
    return {"reference": parts.reference, "candidate": parts.candidate}


def _receipt(capture: Capture) -> bytes:
    path = capture.folder / RECEIPT_NAME
    data = path.read_bytes() if path.is_file() else b""
    if sha256_bytes(data) != capture.index.receipt_sha256:
        raise VerificationFailed(
            "not the receipt that the capture's index names",
            where=str(path),
            hint="delete this capture and run it again",
        )
    return data


def _parsed(receipt: bytes) -> dict[str, Any]:
    value = strict_json(receipt, where=RECEIPT_NAME)
    return value if isinstance(value, dict) else {}


def _check_together(parts: BundleParts, ledger: Ledger, rows_sha256: dict[str, str]) -> None:
    ours = {
        "reference rows": sha256_bytes(ledger.columns["ref_row_sha256"].tobytes()),
        "candidate rows": sha256_bytes(ledger.columns["cand_row_sha256"].tobytes()),
        "tokens": ledger.facts.tokens_sha256,
        "candidate lock": parts.candidate.index.capture_digest,
        "reference lock": parts.reference.index.capture_digest,
        "repeats": parts.repeats.starts[0].rows_sha256,
    }
    theirs = {
        "reference rows": rows_sha256["reference"],
        "candidate rows": rows_sha256["candidate"],
        "tokens": parts.lock.workload.tokens_sha256,
        "candidate lock": parts.lock.capture_digest,
        "reference lock": parts.reference_lock.capture_digest,
        "repeats": rows_sha256["candidate"],
    }
    for name, value in ours.items():
        if value != theirs[name]:
            raise VerificationFailed(
                f"the parts of this bundle do not belong together: {name}", hint="score these captures again"
            )


def _write_folder(final: Path, files: dict[str, bytes]) -> None:
    with whole_folder(final, what="a bundle of this lock and second", hint="run it again") as partial:
        for name, data in files.items():
            (partial / name).write_bytes(data)
