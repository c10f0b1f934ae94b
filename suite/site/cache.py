"""What builds remember: facts of groups of bundles, and which file of the site was made from what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from suite.files import write_atomic
from suite.site.facts import Measured

SCHEMA_VERSION = 1


class MadeFile(BaseModel):
    """One file of the site as it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    size_bytes: int


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    code_key: str = ""
    """Of the build that wrote the files; any other code writes them all again."""
    made: dict[str, MadeFile] = {}
    groups: dict[str, str] = {}
    """Key of a bundle -> its group."""


class Cache:
    """A folder of its own for each site; losing it costs time only."""

    def __init__(self, folder: Path, *, code_key: str) -> None:
        self._folder = folder
        self._code_key = code_key
        self._state = self._read_state()

    @property
    def code_key(self) -> str:
        """Of the code that builds now."""
        return self._code_key

    @property
    def groups(self) -> dict[str, str]:
        """Key of a bundle -> its group."""
        return self._state.groups

    @property
    def made(self) -> dict[str, MadeFile]:
        """Path -> what was written there; what other code wrote is due again, and has no key here."""
        if self._state.code_key == self._code_key:
            return self._state.made
        return {path: MadeFile(key="", size_bytes=0) for path in self._state.made}

    def facts(self, key: str) -> Measured | None:
        """Facts of the group with this key; None if they are not here or cannot be read."""
        try:
            return Measured.model_validate_json(self._facts_path(key).read_bytes())
        except (OSError, ValidationError):
            return None

    def keep_facts(self, key: str, measured: Measured) -> None:
        """Remember a group."""
        write_atomic(self._facts_path(key), measured.model_dump_json().encode())

    def close(self, *, made: dict[str, MadeFile], groups: dict[str, str], group_keys: set[str]) -> None:
        """Write what the next build needs, and drop what it does not."""
        state = _State(code_key=self._code_key, made=made, groups=groups)
        write_atomic(self._folder / "state.json", state.model_dump_json().encode())
        for path in (self._folder / "groups").glob("*.json"):
            if path.stem not in group_keys:
                path.unlink(missing_ok=True)

    def _facts_path(self, key: str) -> Path:
        return self._folder / "groups" / f"{key}.json"

    def _read_state(self) -> _State:
        try:
            data = (self._folder / "state.json").read_bytes()
            value: Any = json.loads(data)
            return _State.model_validate(value) if value.get("schema_version") == SCHEMA_VERSION else _State()
        except (OSError, ValueError, AttributeError):
            return _State()
