"""Finding bundles below a folder, without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from suite.bundle.schema import is_bundle_folder_name
from suite.errors import InvalidInput


def folders_in(folder: Path) -> Iterator[Path]:
    """Visible folders right below `folder` by name, links left out; none where it is absent."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    yield from (folder / name for name in names)


def bundles_in(folder: Path) -> Iterator[Path]:
    """Folders `<name>/<stamp>-<lock digest>` below `folder`, in order."""
    for name in folders_in(folder):
        yield from (path for path in folders_in(name) if is_bundle_folder_name(path.name))


def bundle_below(folder: Path) -> Path | None:
    """The one bundle in a submission's or an attestation's `bundle` folder; None where there is no such folder.

    Raises:
        InvalidInput: it holds none, or more than one.
    """
    if not folder.is_dir():
        return None
    found = list(bundles_in(folder))
    if len(found) != 1:
        raise InvalidInput(f"holds {len(found)} bundles instead of one", where=str(folder))
    return found[0]
