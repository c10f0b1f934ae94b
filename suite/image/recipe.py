"""Recipes of images that are built here: a folder of `dockerfiles/` and the lock files that its Dockerfile installs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from suite.errors import InvalidInput
from suite.image.reference import parse_reference, pinned_reference

FOLDER = "dockerfiles"
LABEL_RECIPE = "suite.recipe"
LABEL_SHA256 = "suite.recipe_sha256"
LABEL_BASE = "suite.base"

_BASE = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)
_PYTHON = re.compile(r"^# python: (3\.[0-9]{1,2})$", re.MULTILINE)
_FROM = re.compile(r"^FROM\s+(\S+)", re.MULTILINE)
_LOCK = re.compile(r"\brequirements/([a-z0-9][a-z0-9-]*\.txt)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What an image is built from."""

    name: str
    dockerfile: bytes
    locks: tuple[Path, ...]
    """Files of `requirements/`, in the order of the Dockerfile."""
    base: str
    """`NAME@sha256:…` of its FROM lines, unless another is given."""
    python: str
    """The base's `python3`, for instance `3.11`: what the wheels must fit."""
    sha256: str
    """Over the Dockerfile and the lock files."""

    @property
    def tag(self) -> str:
        """What the image is called in the engine of this machine."""
        return f"suite/{self.name}:{self.sha256[:12]}"


def load_recipe(name: str, *, root: Path) -> Recipe:
    """Read `dockerfiles/<name>` below the repository's root.

    Raises:
        InvalidInput: no such recipe, or one whose base or packages are not pinned.
    """
    path = root / FOLDER / name / "Dockerfile"
    try:
        data = path.read_bytes()
    except OSError as error:
        known = sorted(file.parent.name for file in (root / FOLDER).glob("*/Dockerfile"))
        raise InvalidInput(
            f"no recipe {name!r}",
            where=str(path),
            hint=f"known: {', '.join(known) or 'none'}; recipes are looked for in the repository's root",
        ) from error
    text = data.decode()
    base, python = _BASE.search(text), _PYTHON.search(text)
    if base is None or python is None:
        raise InvalidInput("needs the lines `ARG BASE=NAME@sha256:…` and `# python: 3.N`", where=str(path))
    if any(word not in ("${BASE}", "$BASE") for word in _FROM.findall(text)):
        raise InvalidInput("every FROM must name ${BASE}", where=str(path))
    locks = tuple(root / "requirements" / lock for lock in dict.fromkeys(_LOCK.findall(text)))
    for lock in locks:
        if not lock.is_file():
            raise InvalidInput("a lock file that the recipe names is absent", where=str(lock))
    digest = hashlib.sha256()
    for content in (data, *(lock.read_bytes() for lock in locks)):
        digest.update(hashlib.sha256(content).digest())
    return Recipe(
        name=name,
        dockerfile=data,
        locks=locks,
        base=pinned_base(base[1]),
        python=python[1],
        sha256=digest.hexdigest(),
    )


def pinned_base(text: str) -> str:
    """`text` if it pins a base image by digest; a tag beside the digest is dropped.

    Raises:
        InvalidInput: it does not.
    """
    reference = pinned_reference(text)
    return str(parse_reference(f"{reference.repository}@{reference.digest}"))
