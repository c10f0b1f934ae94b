"""What builds remember as text, and models read from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from suite.site.keys import key_of

_Model = TypeVar("_Model", bound=BaseModel)


class Kept(Protocol):
    """What remembers text between builds."""

    def text(self, key: str) -> str | None:
        """What was kept under this key, if it is there."""

    def keep_text(self, key: str, text: str) -> None:
        """Keep it."""


def of_folder(kept: Kept, folder: Path, kind: type[_Model], read: Callable[[Path], _Model]) -> _Model:
    """What `read` makes of a folder, from an earlier build where no file in it has changed since.

    Args:
        kept: Where builds remember.
        folder: Everything in it counts, however deep.
        kind: What `read` gives.
        read: May raise; then nothing is kept.
    """
    stats = [(path, path.lstat()) for path in sorted(folder.rglob("*"))]
    found = [[str(path), s.st_mode, s.st_size, s.st_mtime_ns] for path, s in stats]
    key = key_of("folder", kind.__name__, str(folder), found)
    text = kept.text(key)
    try:
        if text is not None:
            return kind.model_validate_json(text)
    except ValidationError:
        pass
    made = read(folder)
    kept.keep_text(key, made.model_dump_json())
    return made
