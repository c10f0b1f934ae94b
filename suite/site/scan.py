"""Finding bundles below a results folder, quickly: what has not changed since the last build is not read again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.bundle.read import read_file
from suite.bundle.schema import RECORD_NAME, is_bundle_folder_name
from suite.errors import InvalidInput, SuiteError
from suite.files import sha256_bytes
from suite.site.facts import Refused
from suite.site.keys import key_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A folder that claims to be a bundle."""

    folder: Path
    place: str
    """`<name>/<stamp>-<lock digest>`."""
    key: str
    """Digest of the record's bytes and of the names, sizes and times of all files."""
    record_file_sha256: str
    group: str
    """Bundles of different groups never stand in one table."""
    latest: bool = True
    """No later bundle of this name lies beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What lies below a results folder."""

    found: tuple[Found, ...]
    refused: tuple[Refused, ...]


def scan(results: Iterable[Path], *, known_groups: Mapping[str, str]) -> Scan:
    """Find bundles.

    Args:
        results: Folders that hold `<name>/<stamp>-<lock digest>/`.
        known_groups: Key -> group, from an earlier build.

    Raises:
        InvalidInput: a folder is absent, or one bundle lies in two of them.
    """
    found: list[Found] = []
    refused: list[Refused] = []
    for root in results:
        if not root.is_dir():
            raise InvalidInput("no such folder", where=str(root), hint="name a folder that `suite run` writes into")
        for folder in _folders(root):
            place = f"{folder.parent.name}/{folder.name}"
            try:
                data = read_file(folder, RECORD_NAME)
                record = sha256_bytes(data)
                key = _key(folder, record)
                group = known_groups.get(key) or _group(data)
            except SuiteError as error:
                refused.append(Refused(place=place, reason=error.message))
                continue
            found.append(Found(folder=folder, place=place, key=key, record_file_sha256=record, group=group))
    places = [one.place for one in found]
    twice = next((place for place in sorted(places) if places.count(place) > 1), None) if _repeats(places) else None
    if twice is not None:
        raise InvalidInput(f"the bundle {twice} lies in two of the folders", hint="name each results folder once")
    return Scan(found=tuple(_mark_latest(found)), refused=tuple(refused))


def _folders(root: Path) -> list[Path]:
    """Folders two levels down that are named as bundles are, without following links, in order."""
    names = sorted(entry.path for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    return [
        Path(entry.path)
        for name in names
        for entry in sorted(os.scandir(name), key=lambda entry: entry.name)
        if entry.is_dir(follow_symlinks=False)
        and is_bundle_folder_name(entry.name)
        and (Path(entry.path) / RECORD_NAME).exists()
    ]


def _key(folder: Path, record_file_sha256: str) -> str:
    with os.scandir(folder) as entries:
        stats = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    files = sorted([name, status.st_size, status.st_mtime_ns] for name, status in stats)
    return key_of(str(folder), record_file_sha256, files)


def _group(data: bytes) -> str:
    """By what a record says of its reference rows; a record that says nothing is a group of its own.

    A lie puts a bundle among others with which it then shares no table: records are checked when they are measured.
    """
    try:
        reference: Any = json.loads(data)
    except (ValueError, RecursionError):
        reference = None
    for name in ("evidence", "reference", "rows_sha256"):
        reference = reference.get(name) if isinstance(reference, dict) else None
    return key_of("group", reference if isinstance(reference, str) else sha256_bytes(data))


def _repeats(places: list[str]) -> bool:
    return len(set(places)) != len(places)


def _mark_latest(found: list[Found]) -> list[Found]:
    newest: dict[str, str] = {}
    for one in found:
        name, _, folder = one.place.partition("/")
        newest[name] = max(newest.get(name, ""), folder)
    return [replace(one, latest=newest[one.place.partition("/")[0]] == one.place.partition("/")[2]) for one in found]
