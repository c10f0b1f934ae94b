"""What two stacks differ in: factors by the field's names, what follows from them, and whether a cause may be named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from suite.manifest.lock import Lock, LockedImage
from suite.manifest.schema import Image, Manifest

Json = Any

# Setting -> the name under which the field speaks of it, where that is not its own.
_NAMES = {
    "engine.max_num_batched_tokens": "chunk_size",
    "engine.enable_prefix_caching": "prefix_caching",
    "engine.speculative": "speculative_decoding",
    "engine.cpu_offload_gib": "cpu_offload",
    "engine.kv_cache_memory_mib": "kv_cache_memory",
    "engine.gpu_memory_percent": "kv_cache_memory",
    "engine.flash_attn_version": "flash_attention_version",
    "engine.disable_custom_all_reduce": "all_reduce",
    "environment.ONEDNN_MAX_CPU_ISA": "cpu_isa",
    "environment.DNNL_MAX_CPU_ISA": "cpu_isa",
    "environment.VLLM_CPU_KVCACHE_SPACE": "kv_cache_memory",
    "hardware.threads": "threads",
    "hardware.count": "gpu_count",
    "runtime.kind": "runtime",
    "runtime.image": "image",
    "runtime.packages": "packages",
    "capture.rows_per_gemm": "rows_per_gemm",
    "capture.neighbours": "batch_neighbours",
    "tokenizer": "tokenizer",
    "chat_template": "chat_template",
}

# Name -> factors from which a difference in it follows, and why. A follower whose cause is absent is a factor itself.
_FOLLOWS: dict[str, tuple[frozenset[str], str]] = {
    "gpu_count": (frozenset({"tensor_parallel_size", "pipeline_parallel_size"}), "one GPU per rank"),
    "all_reduce": (frozenset({"tensor_parallel_size"}), "one rank has no all-reduce"),
    "nccl": (frozenset({"tensor_parallel_size"}), "one rank has no communication"),
    "quantization": (frozenset({"weight_quantisation", "model"}), "the checkpoint's own configuration"),
    "linear_backend": (frozenset({"weight_quantisation", "model"}), "quantised weights bring their own kernel"),
    "load_format": (frozenset({"weight_quantisation", "model"}), "the checkpoint's own files"),
    "language_model_only": (frozenset({"model"}), "another architecture"),
    "tokenizer": (frozenset({"weight_quantisation", "model"}), "the checkpoint's own file; the token ids are equal"),
    "chat_template": (
        frozenset({"weight_quantisation", "model"}),
        "the checkpoint's own file; the token ids are equal",
    ),
    "cpu_offload": (
        frozenset({"weight_quantisation", "model", "hardware"}),
        "the larger weights do not fit; the same kernels run",
    ),
    "kv_cache_memory": (
        frozenset({"weight_quantisation", "model", "hardware", "kv_cache_dtype", "tensor_parallel_size"}),
        "capacity only",
    ),
    "flash_attention_version": (frozenset({"attention_backend"}), "a version of that backend"),
    "cudagraph_mode": (frozenset({"enforce_eager"}), "graphs exist only when not eager"),
    "packages": (frozenset({"image", "runtime"}), "what the image holds"),
    "image": (frozenset({"runtime"}), "a process has no image"),
    "block_size": (frozenset({"attention_backend", "hardware", "kv_cache_dtype"}), "the backend's own block"),
    "threads": (frozenset({"hardware"}), "the machine's own"),
}

# What else follows where both caches hold the dtype that the model computes in.
_OWN_CACHE = {"kv_cache_dtype": (frozenset({"dtype"}), "the cache keeps what the model computes in")}

_STACK = frozenset({"hardware", "image", "runtime", "packages"})
# What an engine chooses by itself -> factors that entail another choice. A KV dtype that silently brings another
# backend with it is no consequence: two things changed.
_CHOICES: dict[str, frozenset[str]] = {
    "attention_backend": _STACK | {"model"},
    "flash_attn_version": _STACK | {"attention_backend", "model"},
    "gdn_prefill_backend": _STACK | {"model", "gdn_prefill_backend"},
    "model_runner": _STACK | {"model", "speculative_decoding"},
    "linear kernels": _STACK | {"model", "weight_quantisation", "dtype", "cpu_isa", "linear_backend", "quantization"},
    "quantization": frozenset({"weight_quantisation", "model"}),
    "kv_cache_dtype": frozenset({"dtype"}),
    "kv_cache_scales": frozenset({"kv_cache_dtype"}),
    "cudagraph_mode": _STACK | {"enforce_eager", "attention_backend", "model"},
    "all_reduce": _STACK | {"tensor_parallel_size", "all_reduce", "nccl"},
    "nccl": _STACK | {"tensor_parallel_size"},
    "architecture": frozenset({"hardware"}),
    "isa": frozenset({"hardware"}),
    "device_kind": frozenset({"hardware"}),
    "threads": frozenset({"hardware", "threads"}),
}


def entailed(setting: str, factors: Iterable[str]) -> bool:
    """Whether a difference in an effective setting follows from one of these factors.

    Args:
        setting: Under the name that a receipt's `effective` gives it.
        factors: Names as `factors` gives them.
    """
    return not _CHOICES.get(setting, frozenset()).isdisjoint(factors)


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing in which two stacks differ."""

    name: str
    """The field's name for it, for instance `kv_cache_dtype`."""
    a: Json
    """Value in the first stack; None where it is not set."""
    b: Json
    reason: str = ""
    """For a consequent difference: from what it follows, and why."""

    def to_json(self) -> dict[str, Json]:
        """`{key, reference, candidate}`, reading the first stack as the reference."""
        return {"key": self.name, "reference": self.a, "candidate": self.b}


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """How two stacks relate."""

    factors: tuple[Difference, ...]
    """Sorted by name."""
    consequent: tuple[Difference, ...]
    """Differences that follow from the factors."""
    not_comparable: tuple[str, ...] = ()
    """Reasons why the two have no probes in common; empty if they can be compared."""

    @property
    def causal_claim(self) -> bool:
        """Whether a difference in results may be laid to the factor: there is exactly one, at the same probes."""
        return len(self.factors) == 1 and not self.not_comparable

    @property
    def verdict(self) -> str:
        """One sentence for a person."""
        if self.not_comparable:
            return f"not comparable: {'; '.join(self.not_comparable)}"
        names = ", ".join(factor.name for factor in self.factors)
        if not self.factors:
            return "no factor: a repeat of the same stack"
        if len(self.factors) == 1:
            return f"one factor: {names}"
        return f"{len(self.factors)} factors ({names}): measured and shown, no causal claim"


def factors(a: Lock | Manifest, b: Lock | Manifest) -> Comparison:
    """Name the factors in which two stacks differ and what is consequent on them.

    Names, roles, serve settings, repeats and branches are not part of a comparison. Locks tell more than manifests:
    where one side is a manifest, files and rendered tokens are not compared.
    """
    both_locked = isinstance(a, Lock) and isinstance(b, Lock)
    # A manifest that names no kind of processor takes any; its lock names the one that it took.
    with_isa = both_locked or None not in (a.hardware.isa, b.hardware.isa)
    left, right = (dict(_settings(side, both_locked=both_locked, with_isa=with_isa)) for side in (a, b))
    found: dict[str, list[tuple[Json, Json]]] = {}
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            found.setdefault(_name(key), []).append((left.get(key), right.get(key)))
    differences = {name: _one(name, pairs) for name, pairs in found.items()}
    for name, pair in (_model_difference(a, b), *_hash_differences(a, b, both_locked=both_locked)):
        if name:
            differences[name] = Difference(name=name, a=pair[0], b=pair[1])
    follows = _FOLLOWS | (_OWN_CACHE if all(_has_own_cache(side) for side in (a, b)) else {})
    causes = {n for n in differences if n not in follows or not follows[n][0] & differences.keys()}
    consequent = []
    for name in sorted(differences.keys() - causes):
        why = ", ".join(sorted(follows[name][0] & differences.keys()))
        difference = differences[name]
        consequent.append(
            Difference(name=name, a=difference.a, b=difference.b, reason=f"follows from {why}: {follows[name][1]}")
        )
    return Comparison(
        factors=tuple(differences[name] for name in sorted(causes)),
        consequent=tuple(consequent),
        not_comparable=tuple(_not_comparable(a, b)),
    )


def _settings(stack: Lock | Manifest, *, both_locked: bool, with_isa: bool) -> Iterator[tuple[str, Json]]:
    """Setting -> value for everything whose name is its own; unset settings are left out."""
    for key, value in stack.engine.model_dump(mode="json", exclude_none=True).items():
        if key == "extra":
            yield from ((f"extra.{name}", item) for name, item in value.items())
        elif not (key == "pipeline_parallel_size" and value == 1):
            yield f"engine.{key}", value
    for key, value in stack.environment.items():
        yield f"environment.{key}", value
    hardware = stack.hardware
    isa = {"isa": hardware.isa} if with_isa and hardware.isa is not None else {}
    yield "hardware", {"kind": hardware.kind, "architecture": hardware.architecture, "gpu": hardware.gpu} | isa
    yield "hardware.count", hardware.count
    if hardware.threads is not None:
        yield "hardware.threads", hardware.threads
    yield "runtime.kind", stack.runtime.kind
    if stack.runtime.packages:
        yield "runtime.packages", dict(sorted(stack.runtime.packages.items()))
    image = stack.runtime.image
    if image is not None:
        yield "runtime.image", _image(image, both_locked=both_locked)
    yield "capture.rows_per_gemm", stack.capture.rows_per_gemm
    yield "capture.neighbours", stack.capture.neighbours or 0


def _has_own_cache(stack: Lock | Manifest) -> bool:
    return stack.engine.kv_cache_dtype in ("auto", stack.engine.dtype)


def _image(image: Image | LockedImage, *, both_locked: bool) -> str | None:
    """What decides the layers: a platform manifest, or an index that names one; the configuration of a built image.

    A manifest names only the recipe of a built image.
    """
    if image.build is None:
        return (image.digest if image.digest_kind == "platform" else image.platform_digest) or image.digest
    if both_locked:
        return image.config_digest
    return f"built from {image.build if isinstance(image, Image) else image.build.recipe}"


def _name(key: str) -> str:
    if key in _NAMES:
        return _NAMES[key]
    section, _, name = key.partition(".")
    if section == "environment":
        return "nccl" if name.startswith("NCCL_") else key
    return name or section


def _one(name: str, pairs: list[tuple[Json, Json]]) -> Difference:
    """Several settings under one name stand side by side, as a list."""
    if len(pairs) == 1:
        return Difference(name=name, a=pairs[0][0], b=pairs[0][1])
    return Difference(name=name, a=[a for a, _ in pairs], b=[b for _, b in pairs])


def _model_difference(a: Lock | Manifest, b: Lock | Manifest) -> tuple[str, tuple[Json, Json]]:
    """`weight_quantisation` for two storings of one base, `model` for two bases or two trainings, or nothing."""
    left, right = _identity(a), _identity(b)
    if isinstance(a, Lock) and isinstance(b, Lock):
        if _weights(a) == _weights(b):
            return "", (None, None)
    elif left == right:
        return "", (None, None)
    shown = (_shown(a), _shown(b))
    base_a, base_b = _base(a), _base(b)
    if base_a is None or base_a != base_b:
        return "model", shown
    formats = {_format(a), _format(b)}
    # Two checkpoints of one base in the same unquantised format differ by training, not by storing.
    if None in formats or formats <= {"bf16", "fp16", "fp32"}:
        return "model", shown
    return "weight_quantisation", shown


def _hash_differences(
    a: Lock | Manifest, b: Lock | Manifest, *, both_locked: bool
) -> Iterator[tuple[str, tuple[Json, Json]]]:
    if not both_locked:
        return
    assert isinstance(a, Lock)
    assert isinstance(b, Lock)
    if a.tokenizer_sha256 != b.tokenizer_sha256:
        yield "tokenizer", (a.tokenizer_sha256, b.tokenizer_sha256)
    if a.chat_template_sha256 != b.chat_template_sha256:
        yield "chat_template", (a.chat_template_sha256, b.chat_template_sha256)


def _not_comparable(a: Lock | Manifest, b: Lock | Manifest) -> Iterator[str]:
    if isinstance(a, Lock) and isinstance(b, Lock):
        if a.workload.tokens_sha256 != b.workload.tokens_sha256:
            yield f"different tokens (workloads {a.workload.name} and {b.workload.name})"
        ranges_equal = a.capture.ranges == b.capture.ranges
    else:
        left, right = _session(a), _session(b)
        if left is not None and right is not None and left != right:
            yield f"different workloads ({left} and {right})"
        mixed = isinstance(a, Lock) or isinstance(b, Lock)
        ranges_equal = mixed or a.capture.ranges == b.capture.ranges
    if a.capture.path != b.capture.path:
        yield f"different paths ({a.capture.path} and {b.capture.path}): other kernels, other positions"
    elif a.capture.stride != b.capture.stride:
        yield f"different strides ({a.capture.stride or 'none'} and {b.capture.stride or 'none'})"
    elif not ranges_equal:
        yield "different ranges"


def _identity(stack: Lock | Manifest) -> Json:
    if isinstance(stack, Lock):
        return stack.model.source.model_dump(mode="json", exclude_none=True)
    return stack.model.model_dump(
        mode="json", include={"repository", "revision", "pypi", "path", "derive"}, exclude_none=True
    )


def _weights(lock: Lock) -> Json:
    """Weights and architecture by hash; tokenizer and template have names of their own."""
    return {f.path: f.sha256 for f in lock.model.files if f.path == "config.json" or f.path.endswith(".safetensors")}


def _base(stack: Lock | Manifest) -> str | None:
    if stack.model.base is not None:
        return stack.model.base
    source = stack.model.source if isinstance(stack, Lock) else stack.model
    if source.pypi is not None:
        return f"{source.pypi.package} {source.pypi.version} {source.pypi.member or ''}".rstrip()
    return None


def _format(stack: Lock | Manifest) -> str | None:
    return stack.model.weight_format if isinstance(stack, Lock) else stack.model.format


def _shown(stack: Lock | Manifest) -> str:
    source = stack.model.source if isinstance(stack, Lock) else stack.model
    where = source.repository or (source.pypi.package if source.pypi else "a local folder")
    if source.revision:
        where += f"@{source.revision[:12]}"
    label = _format(stack)
    return f"{where} ({label})" if label else where


def _session(stack: Lock | Manifest) -> str | None:
    return (
        None if isinstance(stack, Lock) else f"{stack.workload.session} {stack.workload.chat_template or ''}".rstrip()
    )
