"""The fields that a divergence claim must disclose, in the order of reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from suite.card.disclosure import Finder
from suite.card.method_finders import (
    aggregation,
    context,
    direction,
    positions,
    said_by,
    spans,
    storage,
    stride,
    text_hash,
    vocabulary,
)
from suite.card.patterns import (
    CALIBRATION,
    EXCLUDED,
    FLOOR,
    GRAPHS,
    MTP,
    NO_TEMPLATE,
    PREFIX,
    SAMPLER,
    TEMPLATE,
    TOKENIZER,
    TRUNCATION,
)
from suite.card.stack_finders import backend, hash_of, image, kv_dtype, reference_dtype, revision_of, tensor_parallel
from suite.card.words import Side

Level = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One thing to disclose."""

    name: str
    level: Level
    """How bad it is where it is missing."""
    title: str
    advice: str
    """What to write."""
    find: Finder
    single: bool = False
    """Whether two different values (of one side) contradict each other."""
    side: Side | None = None
    """The side it is about, where it is about one."""


FIELDS: tuple[Field, ...] = (
    Field(
        name="reference_revision",
        level="error",
        title="reference revision",
        find=revision_of("reference"),
        single=True,
        side="reference",
        advice="the reference's repository with its 40-digit commit, or the SHA-256 of its weights",
    ),
    Field(
        name="reference_dtype",
        level="error",
        title="reference dtype",
        find=reference_dtype,
        single=True,
        side="reference",
        advice="the dtype of the reference's weights, for instance BF16",
    ),
    Field(
        name="candidate_revision",
        level="error",
        title="candidate revision",
        find=revision_of("candidate"),
        side="candidate",
        advice="the measured checkpoint's 40-digit commit, or the SHA-256 of its weights",
    ),
    Field(
        name="kl_direction",
        level="error",
        title="KL direction",
        find=direction,
        advice="KL(ref||cand) or KL(cand||ref)",
    ),
    Field(
        name="text_hash",
        level="error",
        title="hash of the text",
        find=text_hash,
        advice="the SHA-256 of the text or of its token ids",
    ),
    Field(
        name="positions_n",
        level="error",
        title="number of positions",
        find=positions,
        advice="n, the number of positions, beside every figure",
    ),
    Field(
        name="positions_stride",
        level="error",
        title="stride of positions",
        find=stride,
        single=True,
        advice="every position, or every how many tokens",
    ),
    Field(
        name="positions_spans",
        level="error",
        title="spans of positions",
        find=spans,
        advice="what the positions lie on: the whole prompt, assistant outputs, the second half of each chunk",
    ),
    Field(
        name="context_length",
        level="error",
        title="context length",
        find=context,
        single=True,
        advice="how many tokens of context a position had",
    ),
    Field(
        name="vocabulary",
        level="error",
        title="vocabulary",
        find=vocabulary,
        single=True,
        advice="the number of vocabulary entries compared",
    ),
    Field(
        name="vocabulary_truncation",
        level="error",
        title="truncation of the vocabulary",
        find=said_by(TRUNCATION),
        advice="full vocabulary, or what was cut",
    ),
    Field(
        name="aggregation",
        level="error",
        title="aggregation",
        find=aggregation,
        advice="mean over n positions, a count of n, a quantile",
    ),
    Field(
        name="excluded_rows",
        level="error",
        title="excluded rows",
        find=said_by(EXCLUDED),
        advice="how many rows were left out and why, or that none was",
    ),
    Field(
        name="attention_backend",
        level="error",
        title="effective attention backend",
        find=backend,
        single=True,
        advice="the attention backend that the engine really used, as it says itself",
    ),
    Field(
        name="kv_cache_dtype",
        level="error",
        title="effective KV-cache dtype",
        find=kv_dtype,
        single=True,
        advice="the dtype of the KV cache that the engine really used, on both sides",
    ),
    Field(
        name="tensor_parallel",
        level="error",
        title="tensor parallelism",
        find=tensor_parallel,
        single=True,
        advice="TP 1, or how many GPUs share a layer",
    ),
    Field(
        name="image_digest",
        level="error",
        title="image digest",
        find=image,
        single=True,
        advice="the container image as repository@sha256: with all 64 digits",
    ),
    Field(
        name="calibration",
        level="warning",
        title="calibration",
        find=said_by(CALIBRATION),
        advice="what the weights were calibrated on, or that they were not",
    ),
    Field(
        name="repeat_floor",
        level="warning",
        title="repeat floor",
        find=said_by(FLOOR),
        advice="how far fresh starts of the same stack differ from each other",
    ),
    Field(
        name="storage_precision",
        level="warning",
        title="storage precision",
        find=storage,
        advice="the dtype in which logits or hidden states were stored",
    ),
    Field(
        name="template_hash",
        level="warning",
        title="hash of the chat template",
        advice="the SHA-256 of the template, or that none was used",
        find=hash_of(TEMPLATE, what="template", none=NO_TEMPLATE),
    ),
    Field(
        name="tokenizer_hash",
        level="warning",
        title="hash of the tokenizer",
        advice="the SHA-256 of the tokenizer's files",
        find=hash_of(TOKENIZER, what="tokenizer"),
    ),
    Field(
        name="sampler",
        level="warning",
        title="sampler",
        find=said_by(SAMPLER),
        advice="the sampler's settings or their hash; greedy; or that the tokens were forced",
    ),
    Field(name="mtp", level="warning", title="MTP or speculative decoding", find=said_by(MTP), advice="on or off"),
    Field(name="prefix_cache", level="warning", title="prefix cache", find=said_by(PREFIX), advice="on or off"),
    Field(name="graphs", level="warning", title="CUDA graphs", find=said_by(GRAPHS), advice="graphs or eager"),
)
