"""A manifest made ready to run: its lock, model folder, rendered workload and the runtime that starts it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.agent.processor import this_processor
from suite.errors import InvalidInput, MissingPrerequisite
from suite.image.engine import connected
from suite.image.ensure import ensure_image, locked
from suite.manifest.load import load_manifest
from suite.manifest.lock import Lock, require_complete
from suite.manifest.resolve import resolve
from suite.manifest.schema import Manifest
from suite.model.ensure import find_model
from suite.model.source import source_of
from suite.observer import Observer
from suite.runtime.docker import DockerRuntime
from suite.runtime.interface import Runtime
from suite.runtime.process import ProcessRuntime, find_interpreter
from suite.stack.capabilities import Capabilities, kept
from suite.stack.known_bad import Finding, findings
from suite.workload.rendered import Rendered


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """Everything that one stack needs to be started any number of times."""

    manifest: Manifest
    lock: Lock
    rendered: Rendered
    model_folder: Path
    runtime: Runtime

    @property
    def label(self) -> str:
        """Short name for progress lines and tables."""
        return self.manifest.name

    @property
    def model_config(self) -> dict[str, Any]:
        """The parsed `config.json` of the checkpoint.

        Raises:
            InvalidInput: it is absent, or no JSON object.
        """
        path = self.model_folder / "config.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidInput(f"cannot be read: {error}", where=str(path), hint="fetch the model again") from error
        if not isinstance(value, dict):
            raise InvalidInput("is no JSON object", where=str(path), hint="fetch the model again")
        return value


def prepare_stack(
    path: Path, *, home: Path, root: Path, observer: Observer, cancelled: threading.Event | None = None
) -> Stack:
    """Load, check, fetch, render and lock one manifest.

    Args:
        path: The manifest file.
        home: The state folder.
        root: Where a local `.venv-vllm` is looked for.
        observer: Told each phase, and of each known trap that is not fatal.
        cancelled: Stops running starts when set.

    Raises:
        InvalidInput: the manifest or its workload cannot be used, or is a combination known to give no valid result.
        MissingPrerequisite: interpreter, packages or model are absent.
        VerificationFailed: something is not what the manifest pins.
    """
    manifest = load_manifest(path)
    require_complete(manifest)
    told = refuse_known_bad(manifest, observer, home=home)
    runtime = start_runtime(manifest, home=home, root=root, observer=observer, cancelled=cancelled)
    resolved = resolve(
        manifest,
        home=home,
        python=runtime.python if isinstance(runtime, ProcessRuntime) else runtime.run_script,
        observer=observer,
        built=None if isinstance(runtime, ProcessRuntime) else locked(runtime.image.facts),
    )
    observer.phase("")
    stack = Stack(
        manifest=manifest,
        lock=resolved.lock,
        rendered=resolved.rendered,
        model_folder=resolved.model_folder,
        runtime=runtime,
    )
    refuse_known_bad(manifest, observer, home=home, config=stack.model_config, told=told)
    return stack


def stack_at_hand(
    file: Path, *, home: Path, root: Path, observer: Observer, cancelled: threading.Event
) -> Stack | None:
    """A reference as a stack of this machine, if its model is here already: nothing is fetched for it.

    Args:
        file: Its manifest.
        home: The state folder; models lie below it.
        root: Where a local `.venv-vllm` is looked for.
        observer: Told why not.
        cancelled: Stops its engine when set.
    """
    manifest = load_manifest(file)
    if find_model(source_of(manifest.model, manifest=file), home=home) is None:
        observer.warn(f"the model of {manifest.name} is not here: only the candidate is asked")
        return None
    try:
        return prepare_stack(file, home=home, root=root, observer=observer, cancelled=cancelled)
    except MissingPrerequisite as error:
        observer.warn(f"{manifest.name} cannot be started here, only the candidate is asked: {error.message}")
        return None


def refusal_of(manifest: Manifest, *, home: Path) -> Finding | None:
    """The first reason for which this machine cannot run a manifest; None where none is known."""
    found = findings(manifest, rules=rules_of(manifest, home=home), processor=this_processor())
    return next((finding for finding in found if finding.severity == "refuse"), None)


def refuse_known_bad(
    manifest: Manifest,
    observer: Observer,
    *,
    home: Path,
    config: Mapping[str, Any] | None = None,
    told: Collection[Finding] = (),
) -> tuple[Finding, ...]:
    """Refuse combinations that are known to give no valid result; warn of doubtful ones that were not `told` before.

    Args:
        manifest: The stack.
        observer: Hears the warnings.
        home: The state folder.
        config: As for `findings`, once the model is at hand.
        told: What an earlier call returned.

    Raises:
        InvalidInput: the first refusal.
    """
    found = findings(manifest, config=config, rules=rules_of(manifest, home=home), processor=this_processor())
    for finding in found:
        if finding.severity == "refuse":
            raise InvalidInput(finding.message, where=f"{manifest.name}: {finding.key}", hint=f"change {finding.key}")
        if finding not in told:
            observer.warn(f"{manifest.name}: {finding}")
    return found


def rules_of(manifest: Manifest, *, home: Path) -> Capabilities | None:
    """What the stack's own image said of backends and KV caches on this hardware; None where it was not asked."""
    if manifest.hardware.kind != "cuda":
        return None
    return kept(manifest.runtime, compute_capability=manifest.hardware.architecture, home=home)


def start_runtime(
    manifest: Manifest, *, home: Path, root: Path, observer: Observer, cancelled: threading.Event | None = None
) -> ProcessRuntime | DockerRuntime:
    """The runtime of a manifest, with its interpreter found or its image present, and its packages checked.

    Raises:
        InvalidInput: there is no such recipe of an image.
        MissingPrerequisite: no interpreter, no container engine, no image, or other packages than pinned.
        RunFailed: the image could not be built, or the engine went away.
        VerificationFailed: the image is not the one that is pinned.
    """
    runtime: ProcessRuntime | DockerRuntime
    if manifest.runtime.kind == "process":
        python = find_interpreter(manifest.runtime.python, os.environ, root)
        runtime = ProcessRuntime(python, home=home, cancelled=cancelled)
        what, where, hint = "interpreter", str(python), _interpreter_hint(manifest)
    else:
        with connected() as engine:
            image = ensure_image(manifest, engine=engine, home=home, observer=observer)
        runtime = DockerRuntime(image, hardware=manifest.hardware, home=home, cancelled=cancelled)
        what, where, hint = "image", image.image_id, "correct runtime.packages, or name an image with that version"
    _require_packages(manifest, runtime.packages(), what, where=where, hint=hint)
    return runtime


def _interpreter_hint(manifest: Manifest) -> str:
    """`make vllm` makes the CPU stack only."""
    name = "name an interpreter with that version (SUITE_VLLM_PYTHON)"
    return f"run `make vllm`, or {name}" if manifest.hardware.kind == "cpu" else f"{name}, on a machine with the GPU"


def _require_packages(manifest: Manifest, found: dict[str, str], what: str, *, where: str, hint: str) -> None:
    for name, version in manifest.runtime.packages.items():
        # The local part (+cpu, +cu130) names a build of the same release; where the manifest gives one, it must match.
        have = found.get(name)
        if have is None or (have != version and have.split("+")[0] != version):
            raise MissingPrerequisite(
                f"the manifest pins {name} {version}, the {what} has {have or 'none'}", where=where, hint=hint
            )
