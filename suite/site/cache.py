"""What builds remember: facts of groups of bundles, and which file of the site was made from what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from suite.files import write_atomic
from suite.site.facts import Measured
from suite.site.keys import key_of

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
    groups: dict[str, tuple[str, str]] = {}
    """Key of a bundle -> its group and `record_sha256`."""


class Cache:
    """A folder of its own for each site; losing it costs time only."""

    def __init__(self, folder: Path, *, code_key: str) -> None:
        self._folder = folder
        self._code_key = code_key
        self._state = self._read_state()
        self._asked: set[str] = set()

    @property
    def groups(self) -> dict[str, tuple[str, str]]:
        """Key of a bundle -> its group and `record_sha256`."""
        return self._state.groups

    @property
    def made(self) -> dict[str, MadeFile]:
        """Path -> what was written there; what other code wrote is due again, and has no key here."""
        if self._state.code_key == self._code_key:
            return self._state.made
        return {path: MadeFile(key="", size_bytes=0) for path in self._state.made}

    @property
    def templates(self) -> Path:
        """Where compiled templates lie."""
        folder = self._folder / "templates"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def text(self, key: str) -> str | None:
        """What was kept under `key` by this code, if it is here."""
        self._asked.add(key)
        try:
            return self._text_path(key).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def keep_text(self, key: str, text: str) -> None:
        """Keep text under `key`."""
        write_atomic(self._text_path(key), text.encode())

    def facts(self, key: str) -> Measured | None:
        """Facts of the group with this key; None if they are not here or cannot be read."""
        text = self.text(key)
        try:
            return None if text is None else Measured.model_validate_json(text)
        except ValidationError:
            return None

    def keep_facts(self, key: str, measured: Measured) -> None:
        """Remember a group."""
        self.keep_text(key, measured.model_dump_json())

    def close(self, *, made: dict[str, MadeFile], groups: dict[str, tuple[str, str]]) -> None:
        """Write what the next build needs, and drop what this one did not ask for."""
        state = _State(code_key=self._code_key, made=made, groups=groups)
        write_atomic(self._folder / "state.json", state.model_dump_json().encode())
        asked = {self._text_path(key) for key in self._asked}
        for path in (self._folder / "kept").glob("*.json"):
            if path not in asked:
                path.unlink(missing_ok=True)

    def _text_path(self, key: str) -> Path:
        return self._folder / "kept" / f"{key_of(self._code_key, key)}.json"

    def _read_state(self) -> _State:
        try:
            data = (self._folder / "state.json").read_bytes()
            value: Any = json.loads(data)
            return _State.model_validate(value) if value.get("schema_version") == SCHEMA_VERSION else _State()
        except (OSError, ValueError, AttributeError):
            return _State()
