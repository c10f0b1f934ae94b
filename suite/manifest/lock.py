"""The lock: a manifest with everything resolved before the run. References are looked up by it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol

from pydantic import Field, model_validator

from suite.agent.processor import Processor
from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json, pretty_json, sha256_bytes
from suite.manifest.engine import Engine, RepositoryName, Serve, Strict, Word
from suite.manifest.identity import (
    ConfigDigestField,
    ImageDigestField,
    PlatformDigestField,
    RevisionField,
    Sha256,
    Sha256Field,
)
from suite.manifest.positions import resolve_ranges
from suite.manifest.schema import Branches, BuildName, Hardware, ImageName, Manifest, Name, PypiModel, Replay, Role
from suite.records import parse_strictly
from suite.workload.rendered import Rendered

SCHEMA_VERSION = 1

# Files of a checkpoint folder that no engine reads: they change between commits while the weights stay.
_NOT_LOADED = re.compile(r"(?i)(readme|license|notice|changelog)[^/]*\Z|.*\.(md|pdf|png|jpe?g|svg)\Z|\.gitattributes\Z")


class HashedFile(Protocol):
    """What `make_lock` needs to know about one file of a model folder."""

    @property
    def path(self) -> str:
        """Relative to the folder, with forward slashes."""

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""

    @property
    def sha256(self) -> str:
        """64 lower-case hex characters."""


class LockedFile(Strict):
    """One file of the model folder."""

    path: str = Field(pattern=r"^[^/\\\x00-\x1f][^\\\x00-\x1f]*$", max_length=500)
    size_bytes: int = Field(ge=0)
    sha256: Sha256Field


class LockedBuild(Strict):
    """What an image that was built here was built from."""

    recipe: BuildName
    recipe_sha256: Sha256Field
    """Over the Dockerfile and the lock files that it installs."""
    base: ImageDigestField
    """Of the image on which it was built."""


class LockedImage(Strict):
    """The image, by digests. Tags and mirrors are not part of a stack."""

    repository: ImageName | None = None
    digest: ImageDigestField | None = None
    build: LockedBuild | None = None
    """Instead of repository and digest; `config_digest` is then the image that this machine made of it."""
    digest_kind: Literal["index", "platform"] | None = None
    platform_digest: PlatformDigestField | None = None
    config_digest: ConfigDigestField | None = None
    vllm_version: Word | None = None

    @model_validator(mode="after")
    def _identified(self) -> LockedImage:
        if self.build is not None:
            if self.repository is not None or self.digest is not None or self.config_digest is None:
                raise ValueError("an image that was built has `config_digest`, and neither repository nor digest")
        elif self.repository is None or self.digest is None:
            raise ValueError("an image of a registry has `repository` and `digest`")
        return self

    @property
    def pinned_name(self) -> str:
        """`repository@sha256:…`, or for an image that was built the configuration's digest."""
        return f"{self.repository}@{self.digest}" if self.digest else str(self.config_digest)


class LockedRuntime(Strict):
    """What the engine runs in; no path of any machine."""

    kind: Literal["docker", "process"]
    image: LockedImage | None = None
    packages: dict[Word, Word] = Field(default_factory=dict)


class LockedSource(Strict):
    """Where the files came from; empty for a folder of the machine that made the lock."""

    repository: RepositoryName | None = None
    revision: RevisionField | None = None
    pypi: PypiModel | None = None
    derive: Word | None = None


class LockedModel(Strict):
    """The checkpoint: every file that an engine loads, by hash."""

    source: LockedSource
    base: Word | None = None
    weight_format: Word | None = None
    files: tuple[LockedFile, ...] = Field(min_length=1)
    """Sorted by path."""


class LockedWorkload(Strict):
    """The session and its rendering."""

    name: Word
    digest: Sha256Field
    tokens_sha256: Sha256Field
    """Of the ids as little-endian int32."""
    num_tokens: int = Field(ge=2)


class LockedCapture(Strict):
    """The capture policy with its ranges as numbers."""

    path: Literal["prefill", "decode"]
    stride: int | None = Field(default=None, ge=1)
    ranges: tuple[tuple[int, int], ...]
    """Half-open token ranges; `suite.manifest.positions.probe_positions` says where their probes stand."""
    codec: Literal["auto", "logits", "hidden"]
    rows_per_gemm: int = Field(ge=1)
    chunk_rows: int = Field(ge=1)
    neighbours: int | None = Field(default=None, ge=1)


class Lock(Strict):
    """A resolved manifest. Holds no float and no path of any machine."""

    schema_version: Literal[1] = 1
    name: Name
    role: Role
    runtime: LockedRuntime
    hardware: Hardware
    engine: Engine
    environment: dict[str, str]
    model: LockedModel
    tokenizer_sha256: Sha256Field
    chat_template_sha256: Sha256Field
    workload: LockedWorkload
    capture: LockedCapture
    serve: Serve
    repeats: int = Field(ge=1)
    branches: Branches
    replay: Replay | None = None

    def to_json(self) -> dict[str, Any]:
        """The lock as plain JSON values. Unset keys are left out, so that a key added later changes no digest."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_bytes(self) -> bytes:
        """The content of `lock.json`: `to_json`, indented."""
        return pretty_json(self.to_json())

    @property
    def model_file_hashes(self) -> dict[str, Sha256]:
        """Path in the checkpoint's folder -> SHA-256, as an agent takes them."""
        return {file.path: file.sha256 for file in self.model.files}

    @property
    def digest(self) -> Sha256:
        """SHA-256 of the canonical JSON of the whole lock."""
        return Sha256(sha256_bytes(canonical_json(self.to_json())))

    @property
    def capture_digest(self) -> Sha256:
        """SHA-256 of the canonical JSON of what decides the captured numbers.

        Left out are names, labels, role, serve settings, repeats, branches, replay, the image's repository (its digest
        stands) and files that no engine reads.
        """
        value = self.to_json()
        for key in ("name", "role", "serve", "repeats", "branches"):
            del value[key]
        value.pop("replay", None)
        if image := value["runtime"].get("image"):
            for key in ("repository", "vllm_version"):
                image.pop(key, None)
        value["model"] = [f for f in value["model"]["files"] if not _NOT_LOADED.match(PurePosixPath(f["path"]).name)]
        del value["workload"]["name"]
        return Sha256(sha256_bytes(canonical_json(value)))


def make_lock(
    manifest: Manifest,
    *,
    model_files: Iterable[HashedFile],
    rendered: Rendered,
    workload_name: str | None = None,
    built: LockedImage | None = None,
    processor: Processor | None = None,
) -> Lock:
    """Resolve a manifest. Pure: files are hashed and the workload is rendered by the caller.

    Args:
        manifest: A loaded manifest.
        model_files: Path, size and SHA-256 of each file of the model folder.
        rendered: The workload under this model's tokenizer and chat template.
        workload_name: The session's own name; by default the path's last part.
        built: The image that this machine made, where the manifest names a recipe.
        processor: On which a CPU stack runs; its kind is part of the lock, since kernels and so numbers follow from it.

    Raises:
        InvalidInput: a fact is missing, the workload is longer than the context, or the capture policy does not fit it.
        VerificationFailed: tokenizer, chat template or workload are not the ones that the manifest pins.
    """
    require_complete(manifest)
    _check_pins(manifest, rendered)
    _check_context(manifest, rendered)
    files = tuple(
        LockedFile(path=f.path, size_bytes=f.size_bytes, sha256=Sha256(f.sha256))
        for f in sorted(model_files, key=lambda f: f.path)
    )
    source = manifest.model
    return Lock(
        name=manifest.name,
        role=manifest.role,
        runtime=LockedRuntime(
            kind=manifest.runtime.kind,
            image=_locked_image(manifest, built),
            packages=manifest.runtime.packages,
        ),
        hardware=locked_hardware(manifest.hardware, processor),
        engine=manifest.engine,
        environment=manifest.environment,
        model=LockedModel(
            source=LockedSource(
                repository=source.repository, revision=source.revision, pypi=source.pypi, derive=source.derive
            ),
            base=source.base,
            weight_format=source.format,
            files=files,
        ),
        tokenizer_sha256=Sha256(rendered.tokenizer_sha256),
        chat_template_sha256=Sha256(rendered.chat_template_sha256),
        workload=LockedWorkload(
            name=workload_name or PurePosixPath(manifest.workload.session).stem,
            digest=Sha256(rendered.workload_digest),
            tokens_sha256=Sha256(rendered.tokens_sha256),
            num_tokens=rendered.num_tokens,
        ),
        capture=LockedCapture(
            path=manifest.capture.path,
            stride=manifest.capture.stride,
            ranges=resolve_ranges(manifest.capture, rendered),
            codec=manifest.capture.codec,
            rows_per_gemm=manifest.capture.rows_per_gemm,
            chunk_rows=manifest.capture.chunk_rows,
            neighbours=manifest.capture.neighbours,
        ),
        serve=manifest.serve,
        repeats=manifest.repeats,
        branches=manifest.branches,
        replay=manifest.replay,
    )


def locked_hardware(hardware: Hardware, processor: Processor | None) -> Hardware:
    """The hardware of a manifest, with the kind of processor filled in where it leaves that of a CPU open."""
    if hardware.kind != "cpu" or hardware.isa is not None or processor is None:
        return hardware
    return Hardware.model_validate(hardware.model_dump() | {"isa": processor.isa})


def _locked_image(manifest: Manifest, built: LockedImage | None) -> LockedImage | None:
    image = manifest.runtime.image
    if image is None:
        return None
    if image.build is None:
        return LockedImage.model_validate(image.model_dump(exclude={"tag_seen", "mirrors", "build"}))
    if built is None:
        raise InvalidInput(
            f"the image of {image.build} is not known",
            where=manifest.name,
            hint=f"build it with `suite image build {image.build}`",
        )
    return built.model_copy(update={"vllm_version": image.vllm_version})


def parse_lock(data: bytes, *, where: str) -> Lock:
    """Read what `Lock.to_bytes` wrote, strictly.

    Raises:
        InvalidInput: not strict JSON, a newer schema version, or not a lock.
    """
    return parse_strictly(Lock, data, where=where, newest=SCHEMA_VERSION, what="not a lock: ")


def require_complete(manifest: Manifest) -> None:
    """Refuse a manifest that lacks a fact.

    Raises:
        InvalidInput: with every missing fact and why it is missing.
    """
    if manifest.missing:
        facts = "; ".join(f"{key} ({why})" for key, why in sorted(manifest.missing.items()))
        raise InvalidInput(
            f"this stack is not pinned; missing: {facts}",
            where=manifest.name,
            hint="find the fact out, write it into the manifest and remove it from `missing`",
        )


def _check_pins(manifest: Manifest, rendered: Rendered) -> None:
    pins = (
        ("tokenizer", "model.tokenizer_sha256", manifest.model.tokenizer_sha256, rendered.tokenizer_sha256),
        (
            "chat template",
            "model.chat_template_sha256",
            manifest.model.chat_template_sha256,
            rendered.chat_template_sha256,
        ),
        ("workload", "workload.sha256", manifest.workload.sha256, rendered.workload_digest),
    )
    for what, key, pinned, found in pins:
        if pinned is not None and pinned != found:
            raise VerificationFailed(
                f"the {what} is not the pinned one: {key} is {pinned}, found {found}",
                where=manifest.name,
                hint="restore the pinned content, or pin the new one and measure its reference again",
            )


def _check_context(manifest: Manifest, rendered: Rendered) -> None:
    limit = manifest.engine.max_model_len
    if rendered.num_tokens >= limit:
        raise InvalidInput(
            f"the workload has {rendered.num_tokens:,} tokens, and engine.max_model_len is {limit:,}",
            where=manifest.name,
            hint=f"set max_model_len to at least {rendered.num_tokens + 1:,}, or take a shorter session; a truncated "
            "prompt gives other numbers at the same positions",
        )
