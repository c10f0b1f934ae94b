"""Model repositories at one commit, through huggingface_hub: resumed when cut off, reused without a network."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, read_json, write_atomic
from suite.model.hashes import MODEL_PATTERNS, FileHash, hash_files
from suite.model.source import HubModel
from suite.model.store import disk_full, only_process
from suite.observer import Observer

_INDEX_NAME = "model.safetensors.index.json"
_RECORD = 2
_SHA256 = re.compile(r"[0-9a-f]{64}")


def fetch_snapshot(model: HubModel, *, home: Path, observer: Observer) -> Path:
    """Return the folder of a repository at a commit, downloading what is missing.

    The files lie in the hub library's own cache, so that a checkpoint which another tool has fetched is not
    fetched twice. A record in `home` says which snapshots were seen complete; those need no network at all.

    Raises:
        MissingPrerequisite: the hub cannot be reached and the snapshot is not here whole, the repository or commit
            does not exist or is closed to this user, or the disk is full.
    """
    if (folder := find_snapshot(model, home=home)) is not None:
        return folder
    record = _record(model, home)
    observer.phase(f"fetch {model.repository} at {model.revision[:12]}")
    with only_process(record.with_name(f".{record.stem}.lock"), observer):
        folder = _download(model)
        observer.phase("hash fetched files")
        files = hash_files(folder)
        _require_as_published(folder, files)
        seen = {file.path: {"size_bytes": file.size_bytes, "sha256": file.sha256} for file in files}
        write_atomic(record, canonical_json({"schema_version": _RECORD, "folder": str(folder), "files": seen}))
    return folder


def require_unchanged(model: HubModel, files: Sequence[FileHash], *, home: Path) -> None:
    """See that a snapshot's files, hashed now, are those that were fetched. Without a record nothing is known.

    Raises:
        VerificationFailed: a file was changed, added or taken away since.
    """
    seen = _read(_record(model, home))
    if seen is None:
        return
    then = {path: file["sha256"] for path, file in seen["files"].items()}
    now = {file.path: file.sha256 for file in files}
    wrong = sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))
    if wrong:
        raise VerificationFailed(
            f"{wrong[0]} is not what was fetched" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""),
            where=f"{model.repository}@{model.revision}",
            hint=f"remove {seen['folder']} and its blobs, then fetch again; work on a copy of a checkpoint",
        )


def _require_as_published(folder: Path, files: Sequence[FileHash]) -> None:
    """The hub names large files by their SHA-256, and its client keeps them under that name: hold them to it."""
    for file in files:
        blob = (folder / file.path).resolve()
        if _SHA256.fullmatch(blob.name) and blob.name != file.sha256:
            blob.unlink()
            raise VerificationFailed(
                f"{file.path} was not received as the hub publishes it (SHA-256 {file.sha256[:12]}, "
                f"published {blob.name[:12]})",
                where=str(folder),
                hint="it was removed; run again to fetch it anew",
            )


def find_snapshot(model: HubModel, *, home: Path) -> Path | None:
    """The folder of an earlier fetch, if it is still whole."""
    return _recorded(_record(model, home))


def _record(model: HubModel, home: Path) -> Path:
    return home / "models" / "hub" / f"{model.repository.replace('/', '--')}-{model.revision}.json"


def _recorded(record: Path) -> Path | None:
    """The folder of an earlier fetch if every file of it is still there with its size."""
    seen = _read(record)
    if seen is None:
        return None
    folder = Path(seen["folder"])
    whole = all(
        (folder / path).is_file() and (folder / path).stat().st_size == file["size_bytes"]
        for path, file in seen["files"].items()
    )
    return folder if whole else None


def _read(record: Path) -> Any:
    """A record of this version; one that an older version wrote knows no hashes, and the snapshot is looked at anew."""
    if not record.exists():
        return None
    seen = read_json(record)
    return seen if seen.get("schema_version") == _RECORD else None


def _download(model: HubModel) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError is not in its __all__
        GatedRepoError,
        HfHubHTTPError,
        HTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where = f"{model.repository}@{model.revision}"
    try:
        folder = Path(snapshot_download(model.repository, revision=model.revision, allow_patterns=list(MODEL_PATTERNS)))
    except GatedRepoError as error:
        raise MissingPrerequisite(
            "the repository is closed to this user",
            where=where,
            hint="accept its terms and log in with `hf auth login`",
        ) from error
    except RevisionNotFoundError as error:
        raise MissingPrerequisite("no such commit in the repository", where=where, hint="check the revision") from error
    except RepositoryNotFoundError as error:
        raise MissingPrerequisite(
            "no such repository, or it is private", where=where, hint="check the name, or log in with `hf auth login`"
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError) as error:
        reason = str(error.__cause__ or error).strip().split("\n")[0]
        raise MissingPrerequisite(
            f"not whole on this machine, and the hub did not give it: {reason}",
            where=where,
            hint="connect, then run again: it resumes",
        ) from error
    # The library's HTTPError is its HTTP client's own, which covers connections that break in the middle.
    except (HTTPError, OSError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(home_of_cache()) from error
        raise MissingPrerequisite(f"the fetch broke off: {error}", where=where, hint="run again: it resumes") from error
    # Without a network the library returns whatever part of the snapshot is there.
    if missing := missing_files(folder):
        raise MissingPrerequisite(
            f"the snapshot on this machine is incomplete: {', '.join(missing[:3])} absent",
            where=where,
            hint="connect, then run again: it resumes",
        )
    return folder


def home_of_cache() -> Path:
    """Folder in which the hub library keeps its files."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def missing_files(folder: Path) -> list[str]:
    """Names that a checkpoint folder lacks: of config.json, and the index's shards or one safetensors file."""
    needed = {"config.json"}
    if (folder / _INDEX_NAME).is_file():
        index = json.loads((folder / _INDEX_NAME).read_text(encoding="utf-8"))
        needed |= set(index["weight_map"].values())
    elif not any(folder.glob("*.safetensors")):
        needed.add("model.safetensors")
    return sorted(name for name in needed if not (folder / name).is_file())


def mount_root(folder: Path) -> Path:
    """The folder that a container must see so that every link in `folder` resolves.

    A snapshot of the hub's cache is a folder of links into `blobs` two levels up; any other folder stands for itself.
    """
    linked = [path for path in folder.iterdir() if path.is_symlink()]
    repository = folder.parent.parent
    if linked and folder.parent.name == "snapshots" and (repository / "blobs").is_dir():
        return repository
    return folder
