"""What the stacks of one run are made of: each interpreter and each image is read once, and turned into SBOMs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.files import write_atomic
from suite.model.store import only_process
from suite.observer import Observer
from suite.run.captures import Store
from suite.run.stack import Stack
from suite.runtime.interface import AgentCall, Folder

_NAME = "inventory.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventories:
    """The inventories of one run. Each stack keeps its own in the capture store, for a bundle that is written again."""

    store: Store
    _taken: dict[str, bytes] = field(default_factory=dict)
    """Identity of a runtime -> what was read in it during this run."""

    def sbom(self, stack: Stack, observer: Observer) -> dict[str, Any]:
        """The CycloneDX document of `stack`, from an inventory taken inside it.

        Raises:
            RunFailed: the stack could not be read.
        """
        from suite.sbom.cyclonedx import render_cyclonedx
        from suite.sbom.schema import load_inventory

        path = self.store.captures / stack.lock.capture_digest / "inventory" / _NAME
        identity = stack.runtime.identity
        with only_process(path.parent.with_name(".inventory.lock"), observer):
            if not path.is_file() and identity in self._taken:
                write_atomic(path, self._taken[identity])
            elif not path.is_file():
                _take(stack, path.parent, observer)
                self._taken[identity] = path.read_bytes()
        document: dict[str, Any] = json.loads(render_cyclonedx(load_inventory(path.read_bytes(), where=str(path))))
        return document


def _take(stack: Stack, folder: Path, observer: Observer) -> None:
    own = stack.manifest.runtime.kind == "process"

    def request(paths: Mapping[str, str]) -> dict[str, Any]:
        return {"out": paths["out"], "own_environment": own}

    folders = {"out": Folder(host=folder, writable=True)}
    stack.runtime.call(AgentCall(command="inventory", folders=folders, request=request), observer)
