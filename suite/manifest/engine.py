"""Engine settings as manifests write them: those under which a stack is measured, and those it will be served with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from suite.errors import InvalidInput
from suite.files import canonical_json
from suite.manifest.identity import RevisionField


class Strict(BaseModel):
    """Base of every model at this file boundary: unknown keys refused, no coercion, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+=,@-]{0,119}$")]
"""Text that is safe in a command and on a page."""
RepositoryName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$")
]
"""`owner/name` of a model repository."""

KvCacheDtype = Literal[
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_per_token_head",
    "int8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
]
GraphMode = Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]


class Speculative(Strict):
    """Speculative decoding; MTP is `method: mtp`."""

    method: Word
    num_speculative_tokens: int = Field(ge=1, le=64)
    """Always explicit: engines derive other defaults from a checkpoint's configuration."""
    repository: RepositoryName | None = None
    """The drafter, where it is another checkpoint."""
    revision: RevisionField | None = None

    @model_validator(mode="after")
    def _drafter_is_pinned(self) -> Speculative:
        if (self.repository is None) != (self.revision is None):
            raise ValueError("repository and revision of a drafter belong together")
        return self


class EngineOptions(Strict):
    """Every engine setting, all optional. Names are vLLM's own unless the unit is in the name."""

    attention_backend: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,59}$")] | None = None
    flash_attn_version: Literal[2, 3, 4] | None = None
    """Only with `attention_backend: FLASH_ATTN`."""
    kv_cache_dtype: KvCacheDtype | None = None
    tensor_parallel_size: int | None = Field(default=None, ge=1, le=1024)
    pipeline_parallel_size: int | None = Field(default=None, ge=1, le=1024)
    enforce_eager: bool | None = None
    cudagraph_mode: GraphMode | None = None
    enable_prefix_caching: bool | None = None
    max_num_batched_tokens: int | None = Field(default=None, ge=1, le=1 << 24)
    """Tokens a step may hold: the chunk size of chunked prefill."""
    max_model_len: int | None = Field(default=None, ge=2, le=1 << 24)
    """Tokens, prompt and answer together."""
    max_num_seqs: int | None = Field(default=None, ge=1, le=65_536)
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    quantization: Word | None = None
    """Only where it must be forced; by default the checkpoint's own configuration decides."""
    speculative: Speculative | None = None
    gdn_prefill_backend: Word | None = None
    linear_backend: Word | None = None
    block_size: int | None = Field(default=None, ge=1, le=65_536)
    """Tokens in a KV cache block."""
    model_runner: Literal["v1", "v2"] | None = None
    kv_cache_memory_mib: int | None = Field(default=None, ge=1)
    """KV cache per device, MiB."""
    gpu_memory_percent: int | None = Field(default=None, ge=1, le=100)
    """Share of each GPU's memory that the engine may use, percent."""
    cpu_offload_gib: int | None = Field(default=None, ge=0)
    """Weights kept in host memory, GiB per GPU."""
    disable_custom_all_reduce: bool | None = None
    language_model_only: bool | None = None
    """Leave out the vision part of a multimodal checkpoint."""
    kv_sharing_fast_prefill: bool | None = None
    """Written only to be refused: it makes captured rows invalid."""
    seed: int | None = Field(default=None, ge=0, lt=1 << 31)
    load_format: Word | None = None
    extra: dict[Word, Word | int | bool] = Field(default_factory=dict)
    """Engine arguments that have no key here, by vLLM's name."""

    @model_validator(mode="after")
    def _graphs_need_compiled_mode(self) -> EngineOptions:
        if self.enforce_eager and self.cudagraph_mode not in (None, "NONE"):
            raise ValueError(f"enforce_eager: true and cudagraph_mode: {self.cudagraph_mode} contradict each other")
        if self.flash_attn_version is not None and self.attention_backend not in (None, "FLASH_ATTN"):
            raise ValueError(f"flash_attn_version has no meaning with attention_backend: {self.attention_backend}")
        if self.kv_cache_memory_mib is not None and self.gpu_memory_percent is not None:
            raise ValueError("kv_cache_memory_mib and gpu_memory_percent exclude each other")
        twice = sorted(set(self.extra) & set(type(self).model_fields))
        if twice:
            raise ValueError(f"extra: {twice[0]} has a key of its own; write it one level up")
        return self


class Engine(EngineOptions):
    """The settings under which the stack is captured. What changes numbers is always written out."""

    kv_cache_dtype: KvCacheDtype
    tensor_parallel_size: int = Field(default=1, ge=1, le=1024)
    pipeline_parallel_size: int = Field(default=1, ge=1, le=1024)
    enforce_eager: bool
    enable_prefix_caching: bool
    max_num_batched_tokens: int = Field(ge=1, le=1 << 24)
    max_model_len: int = Field(ge=2, le=1 << 24)
    max_num_seqs: int = Field(ge=1, le=65_536)
    dtype: Literal["bfloat16", "float16", "float32"]
    seed: int = Field(default=0, ge=0, lt=1 << 31)


class Serve(EngineOptions):
    """What changes when the stack is launched for use: only the keys that differ from `engine`, and serving flags."""

    tool_call_parser: Word | None = None
    reasoning_parser: Word | None = None
    enable_auto_tool_choice: bool | None = None
    generation_config: Word | None = None


_CACHE_SIZES = frozenset({"kv_cache_memory_mib", "gpu_memory_percent"})


def serve_settings(engine: Engine, serve: Serve) -> dict[str, object]:
    """The settings of the launched stack: those of `engine`, replaced by those that `serve` names."""
    settings = engine.model_dump(mode="json", exclude_none=True)
    changes = serve.model_dump(mode="json", exclude_none=True)
    # A backend's version and a graph mode belong to the setting they qualify.
    if changes.get("attention_backend", settings.get("attention_backend")) != settings.get("attention_backend"):
        settings.pop("flash_attn_version", None)
    if changes.get("enforce_eager", settings.get("enforce_eager")) != settings.get("enforce_eager"):
        settings.pop("cudagraph_mode", None)
    # Two ways to size one cache: the one that is served replaces the one that was measured.
    if changes.keys() & _CACHE_SIZES:
        settings = {name: value for name, value in settings.items() if name not in _CACHE_SIZES}
    extra = {**settings.pop("extra", {}), **changes.pop("extra", {})}
    return settings | changes | ({"extra": extra} if extra else {})


def served_engine(engine: Engine, serve: Serve, *, where: str) -> Engine:
    """The engine settings of the launched stack; what only serving knows is not among them.

    Args:
        engine: Settings to measure with.
        serve: What is served otherwise.
        where: The stack, for messages.

    Raises:
        InvalidInput: together they contradict each other.
    """
    settings = serve_settings(engine, serve)
    own = {name: value for name, value in settings.items() if name in Engine.model_fields}
    try:
        return Engine.model_validate_json(canonical_json(own))
    except ValidationError as error:
        message = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        raise InvalidInput(message, where=f"{where}: serve", hint="correct the serve settings") from error


def differences(engine: Engine, serve: Serve) -> dict[str, tuple[object, object]]:
    """Setting -> (measured with, served with), for each engine setting that differs between the two."""
    measured = engine.model_dump(mode="json", exclude_none=True)
    launched = serve_settings(engine, serve)
    names = [name for name in EngineOptions.model_fields if name != "extra"]
    return {n: (measured.get(n), launched.get(n)) for n in names if measured.get(n) != launched.get(n)}
