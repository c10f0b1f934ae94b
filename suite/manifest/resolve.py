"""From a manifest to its lock with the files at hand: the model is fetched, the session rendered, everything hashed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from suite.agent.processor import Processor, this_processor
from suite.errors import InvalidInput
from suite.manifest.lock import Lock, LockedImage, make_lock, require_complete
from suite.manifest.schema import Manifest
from suite.model.derive import Interpreter
from suite.observer import Observer
from suite.workload.rendered import Rendered


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """A lock, and what was resolved on the way."""

    lock: Lock
    model_folder: Path
    rendered: Rendered


def resolve(
    manifest: Manifest,
    *,
    home: Path,
    python: Interpreter,
    observer: Observer,
    built: LockedImage | None = None,
    processor: Processor | None = None,
    ensure: Callable[..., Path] | None = None,
    render: Callable[..., Rendered] | None = None,
) -> Resolved:
    """Fetch, derive, render and hash what `manifest` names, and lock it.

    Args:
        manifest: A loaded manifest.
        home: The state folder.
        python: Interpreter with torch and transformers; used only if the model must be derived.
        observer: Told each phase.
        built: The image that this machine made, where the manifest names a recipe.
        processor: On which a CPU stack runs; None: this machine's.
        ensure: Replaces `suite.model.ensure.ensure_model`.
        render: Replaces `suite.workload.render.render`.

    Raises:
        InvalidInput: a fact is missing; the session is absent or does not fit. Exit code 2.
        MissingPrerequisite: the model or what makes it is absent. Exit code 3.
        VerificationFailed: something is not what the manifest pins, or no longer what was fetched. Exit code 5.
    """
    from suite.model.ensure import ensure_model
    from suite.model.hashes import hash_files
    from suite.model.hub import require_unchanged
    from suite.model.source import HubModel, source_of
    from suite.workload.render import render as render_session
    from suite.workload.session import load_session

    require_complete(manifest)
    source = source_of(manifest.model, manifest=manifest.file)
    if not manifest.workload_file.exists():
        raise InvalidInput(
            f"no such session: {manifest.workload.session}",
            where=manifest.name,
            hint="write it with `suite workload synthesize`, or correct workload.session",
        )
    session = load_session(manifest.workload_file)
    template = _chat_template(manifest)
    folder = (ensure or ensure_model)(source, home=home, python=python, observer=observer)
    observer.phase("hash model files")
    files = hash_files(folder)
    if isinstance(source, HubModel) and source.derive is None:
        require_unchanged(source, files, home=home)
    observer.phase("render workload")
    rendered = (render or render_session)(session, folder, chat_template=template)
    lock = make_lock(
        manifest,
        model_files=files,
        rendered=rendered,
        workload_name=session.name,
        built=built,
        processor=processor or this_processor(),
    )
    return Resolved(lock=lock, model_folder=folder, rendered=rendered)


def _chat_template(manifest: Manifest) -> str | None:
    name = manifest.workload.chat_template
    if name is None:
        return None
    try:
        return (manifest.root / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the chat template {name} cannot be read: {error}", where=manifest.name) from error
