"""What a stranger's lock may ask of this machine. Everything that is not named here is refused before it is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from suite.errors import InvalidInput, SuiteError
from suite.image.recipe import load_recipe
from suite.image.reference import parse_reference
from suite.manifest.engine import Engine, Strict, Word
from suite.manifest.environment import refusal as refused_variable
from suite.manifest.lock import Lock, LockedImage, LockedModel
from suite.manifest.schema import ImageName
from suite.model.hashes import MODEL_PATTERNS
from suite.records import parse_strictly

SCHEMA_VERSION = 1
POLICY_LIMIT_BYTES = 1 << 20
MOST_STARTS = 3

Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,79}$")]
SourceKind = Literal["hub", "wheel"]

_LOAD_FORMATS = (None, "auto", "safetensors")
NEVER = frozenset({"trust_remote_code", "hf_overrides", "worker_cls", "worker_extension_cls", "plugins"})
"""Engine arguments that no policy can allow: they load code of the checkpoint or of the machine."""


class Policy(Strict):
    """Allow-lists. A policy file replaces those that it names."""

    schema_version: Literal[1] = 1
    images: tuple[ImageName, ...] = ("docker.io/vllm/vllm-openai",)
    """Repositories with their registry; one that ends beside a `/` boundary allows what lies below it."""
    model_sources: tuple[SourceKind, ...] = ("hub", "wheel")
    """`hub`: a repository at a commit; `wheel`: a GGUF file in a wheel, by the wheel's hash; it is not installed."""
    model_owners: tuple[Word, ...] | None = None
    """Owners of repositories; None: any, since only data is read of them and every file's hash is in the lock."""
    environment: tuple[Variable, ...] = (
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_DEVICE_ORDER",
        "NCCL_ALGO",
        "NCCL_NVLS_ENABLE",
        "NCCL_PROTO",
        "ONEDNN_MAX_CPU_ISA",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST",
        "VLLM_ALLREDUCE_USE_FLASHINFER",
        "VLLM_ALLREDUCE_USE_SYMM_MEM",
        "VLLM_CPU_KVCACHE_SPACE",
        "VLLM_TRITON_FORCE_FIRST_CONFIG",
    )
    """Variables by their whole name: a prefix would let in those that name libraries and folders."""
    engine_arguments: tuple[Word, ...] = ("enable_flashinfer_autotune", "long_prefill_token_threshold")
    """Keys of `engine.extra`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One thing that a lock asks for and does not get."""

    key: str
    """In the lock."""
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def load_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        InvalidInput: unreadable, too large, not strict JSON, or not a policy.
    """
    try:
        if path.stat().st_size > POLICY_LIMIT_BYTES:
            raise InvalidInput(f"larger than {POLICY_LIMIT_BYTES:,} bytes", where=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    policy = parse_strictly(Policy, data, where=str(path), newest=SCHEMA_VERSION, what="not a policy: ")
    never = sorted(NEVER.intersection(policy.engine_arguments))
    if never:
        raise InvalidInput(f"{never[0]} cannot be allowed: it loads code", where=str(path), hint="take it out")
    return policy


def refusals(lock: Lock, policy: Policy, *, root: Path) -> tuple[Refusal, ...]:
    """Everything in a lock that the policy does not allow. Pure but for the recipes of this repository.

    Args:
        lock: Of a stranger.
        policy: The allow-lists.
        root: The repository, whose recipes an image may be built from.
    """
    return tuple(_refusals(lock, policy, root))


def require_allowed(locks: dict[str, Lock], policy: Policy, *, root: Path) -> None:
    """Refuse locks that ask for anything that is not allowed.

    Args:
        locks: File name -> lock.
        policy: The allow-lists.
        root: The repository.

    Raises:
        InvalidInput: with every refusal.
    """
    found = [(name, refusal) for name, lock in locks.items() for refusal in refusals(lock, policy, root=root)]
    if found:
        told = "\n  ".join(f"{name}: {refusal}" for name, refusal in found)
        raise InvalidInput(
            f"this machine does not run it:\n  {told}",
            where="policy",
            hint="nothing was fetched or started. What you have looked into yourself, a file given with --policy may "
            "allow (docs/reproduce.md)",
        )


def _refusals(lock: Lock, policy: Policy, root: Path) -> Iterator[Refusal]:
    if lock.runtime.image is not None:
        yield from _image(lock.runtime.image, policy, root)
    elif lock.runtime.kind == "docker":
        yield Refusal(key="runtime.image", why="a container without an image")
    elif not lock.runtime.packages:
        yield Refusal(key="runtime.packages", why="a process whose packages are not pinned")
    yield from _model(lock.model, policy)
    yield from _engine(lock.engine, policy)
    for name, value in sorted(lock.environment.items()):
        if name not in policy.environment:
            yield Refusal(key=f"environment.{_shown(name)}", why="not an allowed variable")
        elif why := refused_variable(name, value):
            yield Refusal(key=f"environment.{name}", why=why)


def _image(image: LockedImage, policy: Policy, root: Path) -> Iterator[Refusal]:
    if image.build is not None:
        try:
            here = load_recipe(image.build.recipe, root=root)
        except SuiteError as error:
            yield Refusal(
                key="runtime.image.build", why=f"{error.message}; images are built from this repository alone"
            )
            return
        if here.sha256 != image.build.recipe_sha256:
            yield Refusal(key="runtime.image.build", why=f"the recipe {here.name} of this repository is another one")
        elif here.base.partition("@")[2] != image.build.base:
            yield Refusal(key="runtime.image.build", why=f"the base of {here.name} is {here.base} in this repository")
        return
    name = _whole_name(str(image.repository))
    if not any(name == allowed or name.startswith(f"{allowed}/") for allowed in map(_whole_name, policy.images)):
        yield Refusal(key="runtime.image", why=f"{name} is not an allowed image repository")


def _whole_name(repository: str) -> str:
    reference = parse_reference(repository)
    return f"{reference.registry}/{reference.path}"


def _model(model: LockedModel, policy: Policy) -> Iterator[Refusal]:
    source = model.source
    kinds = [kind for kind, has in (("hub", source.repository), ("wheel", source.pypi)) if has is not None]
    if len(kinds) != 1:
        what = "a folder of the machine that made the lock" if not kinds else "two sources at once"
        yield Refusal(key="model.source", why=f"{what} cannot be fetched")
    elif kinds[0] not in policy.model_sources:
        yield Refusal(key="model.source", why=f"{kinds[0]} is not an allowed source of models")
    if source.repository is not None:
        if source.revision is None:
            yield Refusal(key="model.source.revision", why="a repository without a commit")
        owner = source.repository.partition("/")[0]
        if policy.model_owners is not None and owner not in policy.model_owners:
            yield Refusal(key="model.source.repository", why=f"{owner} is not an allowed owner")
    if source.pypi is not None and source.pypi.wheel_sha256 is None:
        yield Refusal(key="model.source.pypi", why="a wheel without its hash")
    names = [file.path for file in model.files]
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in MODEL_PATTERNS) or ".." in name.split("/"):
            yield Refusal(key="model.files", why=f"{_shown(name)} is no file of a safetensors checkpoint")
    if not any(name.endswith(".safetensors") for name in names):
        yield Refusal(key="model.files", why="there are no safetensors among them")


def _engine(engine: Engine, policy: Policy) -> Iterator[Refusal]:
    for name in sorted(engine.extra):
        if name in NEVER:
            yield Refusal(key=f"engine.extra.{name}", why="it loads code, and is refused whatever its value")
        elif name not in policy.engine_arguments:
            yield Refusal(key=f"engine.extra.{name}", why="not an allowed engine argument")
    if engine.load_format not in _LOAD_FORMATS:
        yield Refusal(key="engine.load_format", why=f"{engine.load_format} is not safetensors")
    if engine.speculative is not None and engine.speculative.repository is not None:
        yield Refusal(
            key="engine.speculative", why="the drafter's files are not in the lock, and no engine fetches here"
        )


def _shown(text: str) -> str:
    return ascii(text[:80])[1:-1]
