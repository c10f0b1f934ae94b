"""Finding bundles below a folder, without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from suite.bundle.schema import RECORD_NAME, is_bundle_folder_name
from suite.errors import InvalidInput


def folders_in(folder: Path) -> Iterator[Path]:
    """Visible folders right below `folder` by name, links left out; none where it is absent."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    yield from (folder / name for name in names)


def find_bundles(results: Path) -> list[Path]:
    """Folders of all bundles below `results`, sorted by name and time; hidden and foreign folders are passed over."""
    return [
        path
        for name in folders_in(results)
        for path in folders_in(name)
        if is_bundle_folder_name(path.name) and (path / RECORD_NAME).exists()
    ]


def bundle_below(folder: Path) -> Path:
    """The one bundle in the `bundle` folder of a submission or an attestation.

    Raises:
        InvalidInput: it holds none, or more than one.
    """
    found = find_bundles(folder)
    if len(found) != 1:
        raise InvalidInput(f"holds {len(found)} bundles instead of one", where=str(folder))
    return found[0]
