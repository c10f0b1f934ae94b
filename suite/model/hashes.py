"""Hashes of the files of a model folder that decide what an engine loads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from suite.errors import MissingPrerequisite
from suite.files import sha256_file

# The same list decides what is downloaded, so that a folder fetched whole and one fetched by us hash alike.
MODEL_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")
PROVENANCE_NAME = "suite-model.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileHash:
    """One file of a model folder."""

    path: str
    """Relative to the folder, with forward slashes."""
    size_bytes: int
    sha256: str


def model_files(folder: Path) -> list[Path]:
    """Files that decide what is loaded, relative to `folder`, sorted; hidden files and our own record are left out."""
    relative = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        path
        for path in relative
        if path.as_posix() != PROVENANCE_NAME
        and not any(part.startswith(".") for part in path.parts)
        and any(fnmatchcase(path.as_posix(), pattern) for pattern in MODEL_PATTERNS)
    )


def hash_files(folder: Path) -> list[FileHash]:
    """Hash every file of `folder` that decides what an engine loads, sorted by path; links are followed.

    Raises:
        MissingPrerequisite: the folder does not exist or holds no such file.
    """
    paths = model_files(folder) if folder.is_dir() else []
    if not paths:
        raise MissingPrerequisite(
            "no model files", where=str(folder), hint="name a folder with config.json and weights"
        )
    with ThreadPoolExecutor(max_workers=4) as pool:
        digests = list(pool.map(lambda path: sha256_file(folder / path), paths))
    return [
        FileHash(path=path.as_posix(), size_bytes=(folder / path).stat().st_size, sha256=digest)
        for path, digest in zip(paths, digests, strict=True)
    ]
