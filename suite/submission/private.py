"""`aggregates.json`: what a private session's owner publishes instead of a bundle: counts and sums, and keyed hashes.

A ledger's ids are the session's text, and digests of the session let whoever guesses it see that they guessed right: a
workload's digest, the digest of its tokens, a lock's, a record's, and row hashes. None of them is here.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from suite.bundle.derive import device
from suite.bundle.read import Bundle
from suite.bundle.schema import BundleId, BundleRecord, Factor, Name, Timestamp
from suite.capture.index import CapturePath, Count, Sha256
from suite.errors import InvalidInput
from suite.files import PRIVATE, pretty_json, write_atomic
from suite.manifest.lock import Lock
from suite.records import parse_strictly
from suite.score.floor import RepeatFloor
from suite.score.summary import Group, OffPolicy
from suite.untyped import as_text

SCHEMA_VERSION = 1
AGGREGATES_LIMIT_BYTES = 16 << 20
KEY_BYTES = 32
SIGNIFICANT_DIGITS = 4
"""Of sums: more would tell guesses of a session apart better than a reader needs."""

_Nats = Annotated[float, Field(ge=-1e9, le=1e9)]
_Words = Annotated[str, Field(max_length=200, pattern=r"^[ -~]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Counts(_Strict):
    """Flips by class, of `n` probes."""

    n: Count
    flips: Count
    flips_tied: Count
    flips_uncertain: Count
    flips_leaning: Count
    flips_confident: Count
    off_policy: Count
    kl_ref_cand_sum: _Nats
    """In nats, four significant digits."""


class TurnCounts(Counts):
    """The same of one turn."""

    turn: Annotated[int, Field(ge=-1, le=1 << 20)]
    """Index of the message; -1 for probes of none."""


class Stack(_Strict):
    """What was run, as far as it says nothing of the session."""

    name: Name
    model: _Words
    weights: _Words
    engine: _Words
    """vLLM's version."""
    image: _Words
    """Pinned name; empty for a process."""
    device: _Words


class Aggregates(_Strict):
    """The whole of `aggregates.json`."""

    schema_version: Literal[1]
    bundle_id: BundleId
    """Its last 12 digits are keyed; see `keyed_bundle_id`."""
    record_sha256: Sha256
    """Keyed; see `keyed_record`."""
    sequence_hmac_sha256: Sha256
    """HMAC-SHA256 of the workload's `tokens_sha256` under the owner's key: the same for all runs of one session."""
    created: Timestamp
    path: CapturePath
    vocab_size: Count
    candidate: Stack
    reference: Stack
    factors: tuple[Factor, ...]
    consequent: tuple[Factor, ...]
    causal_claim: bool
    totals: Counts
    rounding_kl_sum: _Nats
    """KL that rounding of the rows alone would make, over all probes."""
    identical_rows: Count
    repeat_floor: RepeatFloor
    off_policy: OffPolicy
    by_turn: tuple[TurnCounts, ...]

    def to_bytes(self) -> bytes:
        """The content of `aggregates.json`."""
        return pretty_json(self.model_dump(mode="json"))


def aggregate(bundle: Bundle, key: bytes) -> Aggregates:
    """The aggregates of a verified bundle.

    Args:
        bundle: Its headlines have been recomputed.
        key: The owner's, 32 bytes.

    Raises:
        InvalidInput: a lock or a receipt cannot be read, or the run has rows that are not finite.
        VerificationFailed: likewise.
    """
    record, h = bundle.record, bundle.record.headlines
    if h.kl_ref_cand is None or h.rounding_kl is None:
        raise InvalidInput("rows that are not finite: there are no sums", where=bundle.bundle_id)
    lock, reference = bundle.lock(), bundle.lock("reference-lock.json")
    return Aggregates(
        schema_version=1,
        bundle_id=keyed_bundle_id(record, key),
        record_sha256=keyed_record(record, key),
        sequence_hmac_sha256=_hmac(key, "sequence", lock.workload.tokens_sha256),
        created=record.created,
        path=h.path,
        vocab_size=h.vocab_size,
        candidate=_stack(lock, bundle.json_object("receipt.json")),
        reference=_stack(reference, bundle.json_object("reference-receipt.json")),
        factors=record.factors,
        consequent=record.consequent,
        causal_claim=record.causal_claim,
        totals=Counts(
            n=h.n,
            flips=h.flips,
            flips_tied=h.flips_tied,
            flips_uncertain=h.flips_uncertain,
            flips_leaning=h.flips_leaning,
            flips_confident=h.flips_confident,
            off_policy=record.off_policy.count,
            kl_ref_cand_sum=_rounded(h.kl_ref_cand.mean * h.n),
        ),
        rounding_kl_sum=_rounded(h.rounding_kl * h.n),
        identical_rows=h.identical_rows,
        repeat_floor=record.repeat_floor,
        off_policy=record.off_policy,
        by_turn=_turns(h.by_turn),
    )


def keyed_bundle_id(record: BundleRecord, key: bytes) -> str:
    """`<name>/<stamp>-<12 keyed digits>`: the lock's own digits would let guesses of the session be tried."""
    stamp = record.folder_name.partition("-")[0]
    return f"{record.name}/{stamp}-{_hmac(key, 'lock', record.lock_digest)[:12]}"


def keyed_record(record: BundleRecord, key: bytes) -> str:
    """What stands for `record_sha256`, 64 digits: its own would tell whoever sees the bundle that it is this one."""
    return _hmac(key, "record", record.record_sha256)


def parse_aggregates(data: bytes, *, where: str) -> Aggregates:
    """Parse the bytes of an `aggregates.json`.

    Raises:
        InvalidInput: not strict JSON, a newer schema, a value that no aggregates have, or counts that contradict.
    """
    found = parse_strictly(Aggregates, data, where=where, newest=SCHEMA_VERSION, what="not aggregates: ")
    _require_sums(found, where=where)
    return found


def new_owner_key() -> bytes:
    """A new key, which is nowhere yet."""
    return secrets.token_bytes(KEY_BYTES)


def write_owner_key(path: Path, key: bytes) -> None:
    """Keep an owner's key, readable by its owner alone."""
    write_atomic(path, f"{key.hex()}\n".encode(), mode=PRIVATE)


def read_owner_key(path: Path) -> bytes | None:
    """The owner's key; None where there is none.

    Raises:
        InvalidInput: the file is no such key.
    """
    if not path.exists():
        return None
    try:
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise InvalidInput("not a key of 64 hexadecimal digits", where=str(path)) from error
    if len(key) != KEY_BYTES:
        raise InvalidInput("not a key of 64 hexadecimal digits", where=str(path))
    return key


def _require_sums(found: Aggregates, *, where: str) -> None:
    """Turns must add up to the totals, classes to flips, and floor and off-policy must be of the same probes."""
    for one in (found.totals, *found.by_turn):
        classes = one.flips_tied + one.flips_uncertain + one.flips_leaning + one.flips_confident
        if classes != one.flips or max(one.flips, one.off_policy) > one.n:
            raise InvalidInput("the classes of flips do not add up", where=where)
    numbers = [one.turn for one in found.by_turn]
    if sorted(set(numbers)) != numbers:
        raise InvalidInput("by_turn: turns are not in order, or one stands twice", where=where)
    for name in (*_COUNTS, "n", "off_policy"):
        if sum(getattr(one, name) for one in found.by_turn) != getattr(found.totals, name):
            raise InvalidInput(f"by_turn: {name} does not add up to the total", where=where)
    total, sums = found.totals.kl_ref_cand_sum, [one.kl_ref_cand_sum for one in found.by_turn]
    # Each number is rounded by itself.
    allowed = 10.0 ** (1 - SIGNIFICANT_DIGITS) * (abs(total) + sum(map(abs, sums)))
    if abs(sum(sums) - total) > allowed:
        raise InvalidInput("by_turn: kl_ref_cand_sum does not add up to the total", where=where)
    if (found.off_policy.count, found.off_policy.n) != (found.totals.off_policy, found.totals.n):
        raise InvalidInput("off_policy contradicts the totals", where=where)
    if any(start.n != found.totals.n or max(start.flips, start.identical_rows) > start.n for start in _starts(found)):
        raise InvalidInput("repeat_floor is not of these probes", where=where)
    if found.identical_rows > found.totals.n - found.totals.flips:
        raise InvalidInput("identical_rows contradicts the flips", where=where)
    if found.causal_claim and len(found.factors) != 1:
        raise InvalidInput(f"a causal claim with {len(found.factors)} factors", where=where)


_COUNTS = ("flips", "flips_tied", "flips_uncertain", "flips_leaning", "flips_confident")


def _starts(found: Aggregates) -> Sequence[Any]:
    return found.repeat_floor.starts


def _turns(groups: Sequence[Group]) -> tuple[TurnCounts, ...]:
    turns = []
    for group in groups:
        assert isinstance(group.key, int)
        assert group.kl_ref_cand_mean is not None
        turns.append(
            TurnCounts(
                turn=group.key,
                n=group.n,
                off_policy=group.off_policy,
                kl_ref_cand_sum=_rounded(group.kl_ref_cand_mean * group.n),
                **{name: getattr(group, name) for name in _COUNTS},
            )
        )
    return tuple(turns)


def _stack(lock: Lock, receipt: dict[str, Any]) -> Stack:
    source = lock.model.source
    where = source.repository or (source.pypi.package if source.pypi else "a local folder")
    return Stack(
        name=lock.name,
        model=_words(lock.model.base or where),
        weights=_words(lock.model.weight_format or source.derive or "not stated"),
        engine=_words(as_text(receipt.get("vllm")) or lock.runtime.packages.get("vllm", "not stated")),
        image="" if lock.runtime.image is None else _words(lock.runtime.image.pinned_name),
        device=_words(device(receipt) or f"{lock.hardware.kind} {lock.hardware.architecture}"),
    )


def _words(text: str) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in text)[:200]


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def _hmac(key: bytes, purpose: str, text: str) -> str:
    return hmac.new(key, f"{purpose}\0{text}".encode(), sha256).hexdigest()
