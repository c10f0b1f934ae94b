"""References in the capture store, found by what their manifest pins, without their model.

Beside the starts of a stack that ran here (`start-<k>`), `<captures>/<capture digest>/` holds what was pulled:
`pack-<12 digits of the index's SHA-256>`, with its own `lock.json` and `pack.json`. Packs of one lock made on different
machines may lie side by side, and none is ever counted as a fresh start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.capture.store import Capture, open_capture
from suite.errors import InvalidInput, MissingPrerequisite, SuiteError
from suite.image.recipe import load_recipe
from suite.manifest.diff import factors
from suite.manifest.lock import Lock, parse_lock
from suite.manifest.schema import Manifest
from suite.reference.schema import RECORD_NAME, PackRecord, parse_record

LOCK_NAME = "lock.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredReference:
    """A complete capture of the store with its lock."""

    capture: Capture
    lock: Lock
    pack: PackRecord | None
    """None for a capture made here."""

    def missing_heads(self, heads: Path) -> tuple[str, ...]:
        """Hashes of head files that its rows need and the store lacks."""
        head = self.capture.index.head
        wanted = head.sha256s if head is not None and self.capture.index.codec == "hidden" else ()
        return tuple(name for name in wanted if not head_file(heads, name).is_file())


def head_file(heads: Path, sha256: str) -> Path:
    """Where the store keeps a head file."""
    return heads / f"{sha256}.safetensors"


def pack_folder(captures: Path, *, capture_digest: str, index_sha256: str) -> Path:
    """Where the store keeps a pulled capture."""
    return captures / capture_digest / f"pack-{index_sha256[:12]}"


def is_pulled(capture: Capture) -> bool:
    """Whether another machine may have made this capture."""
    return (capture.folder / RECORD_NAME).is_file()


def open_stored(folder: Path) -> StoredReference:
    """A capture of the store and the lock that is kept with it.

    Raises:
        MissingPrerequisite: no complete capture, or no lock beside it.
        InvalidInput, VerificationFailed: something of it is damaged.
    """
    capture = open_capture(folder)
    own = folder / RECORD_NAME
    pack = parse_record(own.read_bytes(), where=str(own)) if own.is_file() else None
    path = (folder if pack else folder.parent) / LOCK_NAME
    lock = parse_lock(path.read_bytes(), where=str(path)) if path.is_file() else None
    if lock is None or lock.capture_digest != capture.index.capture_digest:
        raise MissingPrerequisite(
            "the store holds no lock for this capture", where=str(path), hint="run its manifest again"
        )
    return StoredReference(capture=capture, lock=lock, pack=pack)


def stored_references(captures: Path) -> Iterator[StoredReference]:
    """First starts and pulled packs of the store that can be used, those made here first."""
    for pattern in ("*/start-0/index.json", "*/pack-*/index.json"):
        for index in sorted(captures.glob(pattern)):
            try:
                yield open_stored(index.parent)
            except SuiteError:
                continue


def differences(manifest: Manifest, lock: Lock, candidate: Lock | None = None) -> list[str]:
    """In what `lock` is not the lock of `manifest`, or does not fit the candidate; empty if it can stand for it.

    Args:
        manifest: The reference manifest.
        lock: Lock of a capture that may be of this reference.
        candidate: Lock of what is compared with it: same token ids, path, stride and ranges.
    """
    comparison = factors(manifest, lock)
    found = [_told(item.name, item.a, item.b) for item in comparison.factors]
    found += [_told(key, pinned, actual) for key, pinned, actual in _pins(manifest, lock) if pinned != actual]
    if candidate is None:
        return found + list(comparison.not_comparable)
    if manifest.hardware.isa is None and lock.hardware.isa != candidate.hardware.isa:
        # Another kind of processor is another reference, unless the manifest names it.
        found.append(_told("hardware.isa", candidate.hardware.isa, lock.hardware.isa))
    if lock.workload.tokens_sha256 != candidate.workload.tokens_sha256:
        found.append(_told("tokens_sha256", candidate.workload.tokens_sha256, lock.workload.tokens_sha256))
    for key in ("path", "stride", "ranges"):
        wanted, actual = getattr(candidate.capture, key), getattr(lock.capture, key)
        if wanted != actual:
            found.append(_told(f"capture.{key}", wanted, actual))
    return found


def find_reference(
    captures: Path, manifest: Manifest, candidate: Lock, *, accepts: Callable[[StoredReference], bool] = lambda _: True
) -> StoredReference | None:
    """The stored capture of a reference at the candidate's positions; one made here before one that was pulled.

    Args:
        captures: The capture store.
        manifest: The reference manifest.
        candidate: Lock of what is compared with it.
        accepts: Whether a capture that fits may be taken.
    """
    for stored in stored_references(captures):
        if not differences(manifest, stored.lock, candidate) and accepts(stored):
            return stored
    return None


def captures_of(captures: Path, manifest: Manifest) -> list[StoredReference]:
    """Stored captures of `manifest` and its session as they stand now."""
    from suite.files import sha256_bytes
    from suite.workload.session import load_session

    digest = load_session(manifest.workload_file).digest()
    template = manifest.workload.chat_template
    template_sha256 = None if template is None else sha256_bytes((manifest.root / template).read_bytes())
    return [
        stored
        for stored in stored_references(captures)
        if not differences(manifest, stored.lock)
        and stored.lock.workload.digest == digest
        and template_sha256 in (None, stored.lock.chat_template_sha256)
    ]


def capture_at(path: Path, captures: Path) -> StoredReference:
    """The capture that a user names by its folder, or by its manifest.

    Raises:
        InvalidInput: the manifest cannot be loaded, or has captures of several locks.
        MissingPrerequisite: there is no such capture.
    """
    from suite.manifest.load import load_manifest

    if path.is_dir():
        return open_stored(path.absolute())
    manifest = load_manifest(path)
    found = captures_of(captures, manifest)
    if not found and manifest.model.path is not None:
        raise MissingPrerequisite(
            "a manifest that names its model by a local path pins nothing by which its capture could be recognised",
            where=str(path),
            hint="name the capture's folder: `suite reference list` shows it",
        )
    if not found:
        raise MissingPrerequisite(
            "the capture store holds no capture of this manifest and session", where=str(path), hint="run it first"
        )
    if len({stored.lock.capture_digest for stored in found}) > 1:
        folders = ", ".join(str(stored.capture.folder) for stored in found)
        raise InvalidInput("several captures are of this manifest", where=str(path), hint=f"name one of {folders}")
    return found[0]


def _pins(manifest: Manifest, lock: Lock) -> Iterator[tuple[str, Any, Any]]:
    image, locked = manifest.runtime.image, lock.runtime.image
    if image is not None and image.build is not None and locked is not None and locked.build is not None:
        recipe = load_recipe(image.build, root=manifest.root)
        yield "runtime.image.build", recipe.sha256, locked.build.recipe_sha256
    for key, pinned, actual in (
        ("model.tokenizer_sha256", manifest.model.tokenizer_sha256, lock.tokenizer_sha256),
        ("model.chat_template_sha256", manifest.model.chat_template_sha256, lock.chat_template_sha256),
        ("workload.sha256", manifest.workload.sha256, lock.workload.digest),
    ):
        if pinned is not None:
            yield key, pinned, actual


def _told(key: str, wanted: Any, actual: Any) -> str:
    return f"{key} ({_short(wanted)} is wanted, it has {_short(actual)})"


def _short(value: Any) -> str:
    text = str(value)
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")[1:-1]
