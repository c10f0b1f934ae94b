"""What a stack is made of, taken once per stack and turned into its SBOM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suite.model.store import only_process
from suite.observer import Observer
from suite.run.captures import Store
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder


def take_inventory(stack: Stack, store: Store, observer: Observer) -> dict[str, Any]:
    """The CycloneDX document of `stack`, from an inventory taken inside it (and kept in the capture store).

    Raises:
        RunFailed: the stack could not be read.
    """
    from suite.sbom.cyclonedx import render_cyclonedx
    from suite.sbom.schema import load_inventory

    folder = store.captures / stack.lock.capture_digest / "inventory"
    path = folder / "inventory.json"
    with only_process(folder.with_name(".inventory.lock"), observer):
        _take(stack, folder, observer)
    document: dict[str, Any] = json.loads(render_cyclonedx(load_inventory(path.read_bytes(), where=str(path))))
    return document


def _take(stack: Stack, folder: Path, observer: Observer) -> None:
    if not (folder / "inventory.json").is_file():
        own = stack.manifest.runtime.kind == "process"

        def request(paths: Mapping[str, str]) -> dict[str, Any]:
            return {"out": paths["out"], "own_environment": own}

        folders = {"out": Folder(host=folder, writable=True)}
        stack.runtime.call(AgentCall(command="inventory", folders=folders, request=request), observer)
