"""Images kept for good: an archive holds what a registry sent, bit for bit, so that its digest outlives the registry.

Nightly images are gone after about two weeks. skopeo's `dir:` layout keeps every byte of a manifest; its `oci:` layout
writes the manifest anew, under another digest.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.files import canonical_json, pretty_json, read_json, sha256_file
from suite.image.facts import ImageFacts
from suite.image.reference import ImageReference
from suite.image.registry import Registry
from suite.image.resolve import resolve_image
from suite.manifest.engine import Strict
from suite.manifest.identity import ImageDigestField, Sha256, Sha256Field
from suite.observer import Observer
from suite.records import refuse_newer, validated

RECORD_NAME = "archive.json"
INDEX_NAME = "index.json"
LAYOUT = "image"
SCHEMA_VERSION = 1


class ArchivedFile(Strict):
    """One file of an archive."""

    size_bytes: int = Field(ge=0)
    sha256: Sha256Field


class ArchiveRecord(Strict):
    """`archive.json`."""

    schema_version: Literal[1] = 1
    digest: ImageDigestField
    """What can be restored: the platform's manifest, or the index where all platforms were kept."""
    all_platforms: bool
    image: ImageFacts
    files: dict[str, ArchivedFile]
    """Every other file, by its path in the archive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """A folder that has been checked."""

    folder: Path
    record: ArchiveRecord


def archive_image(
    reference: ImageReference, target: Path, *, platform: str, all_platforms: bool, observer: Observer
) -> Archive:
    """Copy an image from its registry into the folder `target`, and check every byte.

    Args:
        reference: With its digest.
        target: Must not exist; it is complete or absent.
        platform: Which image of an index, unless all are kept.
        all_platforms: Keep every image of the index, so that the index itself can be restored.
        observer: Told each phase.

    Raises:
        InvalidInput: `target` exists, or there is no image for that platform.
        MissingPrerequisite: no skopeo, no such image, or a full disk.
        VerificationFailed: something is not what its digest names.
        RunFailed: skopeo failed otherwise.
    """
    if target.exists():
        raise InvalidInput("exists already", where=str(target), hint="name another folder")
    facts = resolve_image(reference, platform=platform)
    digest = facts.index_digest if all_platforms and facts.index_digest else facts.platform_digest
    assert digest is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        observer.phase("copy from the registry")
        source = f"docker://{reference.repository}@{digest}"
        skopeo(
            ["copy", "--quiet", "--preserve-digests", *(["--all"] if all_platforms else []), *_tls("src", reference)],
            source,
            f"dir:{temporary / LAYOUT}",
        )
        if facts.index_digest is not None:
            index = Registry(reference).manifest(facts.index_digest)
            (temporary / INDEX_NAME).write_bytes(index.data)
        observer.phase("hash")
        record = ArchiveRecord(digest=digest, all_platforms=all_platforms, image=facts, files=_files(temporary))
        (temporary / RECORD_NAME).write_bytes(pretty_json(record.model_dump(mode="json", exclude_none=True)))
        _check_layout(temporary, record)
        temporary.chmod(0o755)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    observer.phase("")
    return Archive(folder=target, record=record)


def open_archive(folder: Path, *, observer: Observer) -> Archive:
    """Check an archive: every file against its hash, the manifest against the digest, blobs against their names.

    Raises:
        InvalidInput: not an archive, or of a newer version.
        VerificationFailed: a file is missing, altered, or not named.
    """
    observer.phase("hash")
    path = folder / RECORD_NAME
    value = read_json(path)
    refuse_newer(value, newest=SCHEMA_VERSION, where=str(path))
    record = validated(ArchiveRecord, canonical_json(value), where=str(path), what="not an archive: ")
    found = _files(folder)
    for name in sorted(found.keys() | record.files.keys()):
        if found.get(name) != record.files.get(name):
            how = "is missing" if name not in found else "is not named" if name not in record.files else "was altered"
            raise VerificationFailed(f"a file {how}", where=str(folder / name), hint="take another copy of the archive")
    _check_layout(folder, record)
    observer.phase("")
    return Archive(folder=folder, record=record)


def restore_image(archive: Archive, target: ImageReference, *, observer: Observer) -> str:
    """Copy an archived image into a registry under its own digest; returns `REPOSITORY@sha256:…`.

    Args:
        archive: Checked.
        target: A repository, without tag and digest.
        observer: Told each phase.

    Raises:
        MissingPrerequisite: no skopeo, or the registry cannot be reached.
        RunFailed: the registry refused.
        VerificationFailed: what the registry holds afterwards is something else.
    """
    digest = archive.record.digest
    named = ImageReference(repository=target.repository, digest=digest)
    observer.phase("copy to the registry")
    skopeo(
        [
            "copy",
            "--quiet",
            "--preserve-digests",
            *(["--all"] if archive.record.all_platforms else []),
            *_tls("dest", target),
        ],
        f"dir:{archive.folder / LAYOUT}",
        f"docker://{named}",
    )
    facts = resolve_image(named, platform=archive.record.image.platform)
    if facts.config_digest != archive.record.image.config_digest or facts.layers != archive.record.image.layers:
        raise VerificationFailed("the registry holds another image now", where=str(named))
    observer.phase("")
    return str(named)


def skopeo(options: Sequence[str], source: str, target: str) -> None:
    """Run `skopeo OPTIONS SOURCE TARGET`.

    Raises:
        MissingPrerequisite: there is no skopeo, the disk is full, or the source is absent.
        RunFailed: it failed otherwise.
    """
    if shutil.which("skopeo") is None:
        raise MissingPrerequisite(
            "skopeo is not installed", where="suite image", hint="install the package `skopeo` of your distribution"
        )
    done = subprocess.run(
        ["skopeo", *options, source, target],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return
    text = done.stderr.strip()
    if "no space left on device" in text:
        raise MissingPrerequisite("no space left on the disk", where=target, hint="free disk space, then run again")
    last = text.splitlines()[-1] if text else f"exit code {done.returncode}"
    raise RunFailed(f"skopeo failed: {last}", where=f"{source} -> {target}")


def _tls(side: str, reference: ImageReference) -> list[str]:
    return [f"--{side}-tls-verify=false"] if reference.is_loopback else []


def _files(folder: Path) -> dict[str, ArchivedFile]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / RECORD_NAME)
    return {
        path.relative_to(folder).as_posix(): ArchivedFile(
            size_bytes=path.stat().st_size, sha256=Sha256(sha256_file(path))
        )
        for path in paths
    }


def _check_layout(folder: Path, record: ArchiveRecord) -> None:
    """The layout's own names: `manifest.json`, `<digest>.manifest.json`, and blobs called by their SHA-256."""
    manifest = folder / LAYOUT / "manifest.json"
    if not manifest.is_file() or f"sha256:{sha256_file(manifest)}" != record.digest:
        raise VerificationFailed("the manifest is not the one that the digest names", where=str(manifest))
    image = record.image
    wanted = {image.config_digest, *(layer.digest for layer in image.layers)}
    for digest in sorted(wanted):
        name = digest.removeprefix("sha256:")
        entry = record.files.get(f"{LAYOUT}/{name}")
        if entry is None or entry.sha256 != name:
            raise VerificationFailed("a blob is missing or not what its name says", where=f"{LAYOUT}/{name}")
    index = folder / INDEX_NAME
    if image.index_digest and f"sha256:{hashlib.sha256(index.read_bytes()).hexdigest()}" != image.index_digest:
        raise VerificationFailed("the index is not the one that its digest names", where=str(index))
