"""Launch commands as the pages show them: text to copy, and in what the launched stack is not the measured one."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from suite.errors import SuiteError
from suite.manifest.load import SUFFIXES, Loader
from suite.manifest.schema import Manifest
from suite.site.facts import plain
from suite.site.kept import Kept
from suite.site.keys import key_of
from suite.stack.launch import Launch, launch, shell_text
from suite.stack.launchable import Launchable


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ChangeFacts(_Kept):
    """One setting, measured and launched."""

    name: str
    measured: str
    served: str
    effect: str


class CommandFacts(_Kept):
    """One stack's command."""

    backend: str
    kv_cache_dtype: str
    weights: str
    docker: str
    """Empty where the stack is no container."""
    serve: str
    changes: tuple[ChangeFacts, ...]
    notes: tuple[str, ...]
    refusal: str = ""
    """Why there is no command."""

    @property
    def shown(self) -> str:
        """The command to copy first: the container's where there is one."""
        return self.docker or self.serve


class ManifestFacts(_Kept):
    """A stack that can be run from the repository, whether or not anyone has."""

    name: str
    path: str
    """Below the folder of manifests."""
    description: str
    role: str
    gpu: str
    model: str
    repository: str
    tag_seen: str
    missing: tuple[str, ...]
    """Facts that are not known, with the reason."""
    command: CommandFacts


def command_of(stack: Launchable, *, weights: str) -> CommandFacts:
    """The command of a lock or manifest; a refusal where it cannot be launched."""
    engine = stack.engine
    version = "" if engine.flash_attn_version is None else f" {engine.flash_attn_version}"
    backend = f"{engine.attention_backend or 'engine chooses'}{version}"
    try:
        made: Launch | None = launch(stack)
        refusal = ""
    except SuiteError as error:
        made, refusal = None, error.message
    return CommandFacts(
        backend=backend,
        kv_cache_dtype=engine.kv_cache_dtype,
        weights=weights,
        docker="" if made is None or made.docker is None else shell_text(made.docker, wrapped=True),
        serve="" if made is None else shell_text(made.plain, wrapped=True),
        changes=()
        if made is None
        else tuple(
            ChangeFacts(name=c.name, measured=plain(c.measured), served=plain(c.served), effect=c.effect)
            for c in made.differences
        ),
        notes=() if made is None else made.notes,
        refusal=refusal,
    )


class _Launches(_Kept):
    manifests: tuple[ManifestFacts, ...]


def launches(folder: Path | None, *, kept: Kept) -> tuple[ManifestFacts, ...]:
    """What `read_launches` finds, from an earlier build where no manifest has changed since.

    Args:
        folder: Of manifests; None: there are none.
        kept: Where builds remember.
    """
    if folder is None:
        return ()
    stats = [(path, path.stat()) for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES]
    key = key_of("manifests", [[str(path), status.st_size, status.st_mtime_ns] for path, status in stats])
    data = kept.text(key)
    if data is not None:
        return _Launches.model_validate_json(data).manifests
    found = read_launches(folder)
    kept.keep_text(key, _Launches(manifests=found).model_dump_json())
    return found


def read_launches(folder: Path) -> tuple[ManifestFacts, ...]:
    """Every manifest below a folder, those at its top first.

    What cannot be loaded is passed over: `suite manifest check` says why.
    """
    loader = Loader()
    found = []
    paths = sorted(folder.rglob("*"), key=lambda path: (len(path.parts), len(path.name), path))
    for path in paths:
        relative = path.relative_to(folder)
        if path.suffix not in SUFFIXES or any(part.startswith("_") for part in relative.parts):
            continue
        try:
            found.append(_manifest(loader.load(path), relative.as_posix()))
        except SuiteError:
            continue
    return tuple(found)


def _manifest(manifest: Manifest, path: str) -> ManifestFacts:
    source, image = manifest.model, manifest.runtime.image
    return ManifestFacts(
        name=manifest.name,
        path=path,
        description=manifest.description or "",
        role=manifest.role,
        gpu=manifest.hardware.gpu or "",
        model=source.base or (source.repository or "").partition("/")[2] or manifest.name,
        repository=source.repository or "",
        tag_seen=(image.tag_seen or "") if image else "",
        missing=tuple(f"{key}: {why}" for key, why in sorted(manifest.missing.items())),
        command=command_of(manifest, weights=source.format or "bf16"),
    )
