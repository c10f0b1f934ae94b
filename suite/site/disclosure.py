"""The methodology block: an answer to every question that a divergence claim raises, also where it is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from suite.manifest.lock import Lock
from suite.score.summary import Headlines
from suite.site.facts import BundleFacts, plain
from suite.site.measure import source_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One line of the block."""

    question: str
    answer: str
    is_open: bool = False
    """Whether it says that something is not known or not measured."""


def disclosures(
    facts: BundleFacts, lock: Lock, reference: Lock, *, headlines: Headlines, dtype: str
) -> tuple[Answer, ...]:
    """The block of one bundle.

    Args:
        facts: Of the bundle.
        lock: Of the candidate.
        reference: Of the reference.
        headlines: Of the record.
        dtype: Of the captured rows of both sides.
    """
    return tuple(_answers(facts, lock, reference, headlines, dtype))


def _answers(facts: BundleFacts, lock: Lock, reference: Lock, headlines: Headlines, dtype: str) -> Iterator[Answer]:
    def say(question: str, answer: str, *, is_open: bool = False) -> Answer:
        return Answer(question=question, answer=answer, is_open=is_open)

    yield say(
        "Reference, revision and dtype",
        f"{reference.name}: {source_text(reference.model.source)}; weights "
        f"{reference.model.weight_format or reference.model.source.derive or 'as the checkpoint stores them'}, "
        f"computed in {reference.engine.dtype}",
    )
    yield say("Candidate, revision", f"{facts.source}; weights {facts.weights}")
    yield say(
        "Direction of the divergence", "KL(reference || candidate) in nats, natural logarithm; the reverse beside it"
    )
    yield say(
        "Text",
        f"{lock.workload.name}, workload SHA-256 {lock.workload.digest}, tokens SHA-256 {lock.workload.tokens_sha256}",
    )
    yield say("Positions", _positions(facts, lock))
    yield say(
        "Context",
        f"{facts.workload_tokens:,} tokens of one session, max_model_len {facts.max_model_len:,}; never truncated",
    )
    yield say("Vocabulary", f"all {headlines.vocab_size:,} entries; only padding is cut. No top-k, no truncation")
    yield say(
        "Aggregation",
        f"exactly rounded mean over n = {facts.n:,} probes; {headlines.invalid_rows:,} rows not finite, none excluded; "
        f"quantiles interpolate between order statistics",
    )
    yield say(
        "Effective attention backend and KV cache",
        f"{facts.attention_backend}, {facts.kv_cache_dtype} (read back from the worker)",
    )
    yield say("Tensor parallelism", str(facts.tensor_parallel_size))
    yield say(
        "Image",
        facts.image or f"no image: the process runtime with vLLM {facts.vllm}; its packages stand in the SBOM",
        is_open=not facts.image,
    )
    yield say("Factors", _factors(facts))
    yield say(
        "Rows of one table",
        "only bundles with these reference rows, by SHA-256, at the same probes: one base for all of them",
    )
    yield say(
        "Is the reference BF16?",
        "yes" if reference.engine.dtype == "bfloat16" and _is_plain(reference) else "no, see the first line",
    )
    yield say(
        "Calibration",
        "round to nearest, no calibration data"
        if lock.model.source.derive
        else "the same weights as the reference"
        if not any(factor.key == "weight_quantisation" for factor in facts.factors)
        else "not disclosed by the checkpoint's lock",
        is_open=not lock.model.source.derive and any(f.key == "weight_quantisation" for f in facts.factors),
    )
    yield say("Repeat floor", _floor(facts), is_open=facts.floor_starts < 3)
    yield say("Tails", "median, p90, p99 and maximum; p99.9 from 10,000 probes on")
    yield say("Storage precision", f"rows as the engine computed them ({dtype}), scored in FP64")
    yield say(
        "Chat template and tokenizer",
        f"template SHA-256 {lock.chat_template_sha256}, tokenizer SHA-256 {lock.tokenizer_sha256}",
    )
    yield say("Sampler", "none: the recorded tokens are forced, nothing is sampled")
    speculative = lock.engine.speculative
    yield say("Speculative decoding and MTP", "off" if speculative is None else plain(speculative.model_dump()))
    yield say("Prefix cache", "on" if lock.engine.enable_prefix_caching else "off")
    yield say(
        "CUDA graphs and compilation",
        "off (eager)" if lock.engine.enforce_eager else str(lock.engine.cudagraph_mode or "on"),
    )
    yield say("Intervals", facts.interval_method)
    yield say(
        "Numerical band",
        f"{len(facts.band)} equally valid stacks against the same rows"
        if facts.band
        else "not measured with this bundle",
        is_open=not facts.band and not facts.is_band,
    )
    yield say("Tool calls", _calls(facts), is_open=not facts.calls)
    yield say(
        "What became of the flips",
        f"{sum(c.used for c in facts.consequences):,} followed" if facts.consequences else "not followed",
        is_open=not facts.consequences,
    )


def _is_plain(reference: Lock) -> bool:
    return (reference.model.weight_format or reference.model.source.derive or "bf16") in ("bf16", "bfloat16")


def _positions(facts: BundleFacts, lock: Lock) -> str:
    capture = lock.capture
    where = f"every {capture.stride} tokens" if capture.stride and capture.stride > 1 else "every position"
    if capture.ranges:
        where = f"every position of {len(capture.ranges)} ranges"
    turns = f" in {facts.num_turns} turns" if facts.num_turns else ""
    return f"n = {facts.n:,}{turns}, {where}, {facts.path} path, token history forced"


def _factors(facts: BundleFacts) -> str:
    if not facts.factors:
        return "none: the same stack as its reference"
    told = "; ".join(f"{f.key}: {f.reference} → {f.candidate}" for f in facts.factors)
    if facts.causal_claim:
        return f"one: {told}"
    return f"{len(facts.factors)}, so no causal claim: {told}"


def _floor(facts: BundleFacts) -> str:
    if not facts.floor:
        return "not measured (one start)"
    return (
        f"{', '.join(f'{flips:,}' for flips in facts.floor)} flips of {facts.n:,} in {facts.floor_starts} fresh starts"
    )


def _calls(facts: BundleFacts) -> str:
    if not facts.calls:
        return "not measured: no turn was replayed"
    return "; ".join(f"{c.survived} of {c.n} calls survive ({c.settings} settings, {c.mode})" for c in facts.calls)
