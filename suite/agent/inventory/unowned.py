"""ELF shared objects and executables in the usual places that neither dpkg nor any RECORD owns, each with its hash."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from typing import Any

from suite.agent.inventory.environment import SITE_NAMES, Environment, interpreter
from suite.agent.inventory.tree import Tree

LIBRARY_FOLDERS = ("lib", "lib32", "lib64", "usr/lib", "usr/lib32", "usr/lib64", "usr/libexec", "usr/local", "opt")
PROGRAM_FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin")
MAX_ENTRIES = 2_000_000
MAX_FILES = 20_000
MAX_FILE_BYTES = 4 << 30
MAX_TOTAL_BYTES = 16 << 30

_SHARED_NAME = re.compile(r".+\.so(\.[0-9A-Za-z_.]+)?")
_SKIP = frozenset({"__pycache__", ".git", "node_modules"})
_PROGRAM_PLACES = frozenset({"bin", "sbin", "libexec"})
_ELF_HEAD_BYTES = 18
_EXECUTABLE, _SHARED = 2, 3


@dataclass(kw_only=True)
class _Budget:
    files: int = MAX_FILES
    size_bytes: int = MAX_TOTAL_BYTES


def collect(
    system: Tree, environments: list[Environment], owners: dict[str, str], recorded: dict[int, set[str]]
) -> list[dict[str, Any]]:
    """Path, size, SHA-256 and type of every such file, sorted by path.

    A file that was mounted into a running container (a GPU driver's libraries) is marked `mounted`: it is the host's,
    not the image's. Scripts are not listed.
    """
    mounted = _mounted_files(system)
    budget = _Budget()
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for tree, start, skip in _starts(system, environments):
        owned = recorded.get(id(tree), set())
        for path, entry in tree.walk(start, skip=skip, max_entries=MAX_ENTRIES):
            name = entry.name
            in_program_place = path.rpartition("/")[0].rpartition("/")[2] in _PROGRAM_PLACES
            if not (in_program_place or _SHARED_NAME.fullmatch(name)) or not entry.is_file(follow_symlinks=False):
                continue
            if path in owned or (tree is system and path in owners) or (id(tree), path) in found:
                continue
            described = _describe(tree, path, budget)
            if described is not None:
                described["mounted"] = tree is system and path in mounted
                found[id(tree), path] = described
    return sorted(found.values(), key=lambda item: (item["path"], item["sha256"] or ""))


def _starts(system: Tree, environments: list[Environment]) -> list[tuple[Tree, str, frozenset[str]]]:
    """Canonical folders to walk, none inside another, each with the names of the folders to leave out.

    Environments other than the given ones are left out: their RECORDs were not read, so nothing can be said of them.
    """
    places = [(system, place) for place in (*LIBRARY_FOLDERS, *PROGRAM_FOLDERS)]
    for environment in environments:
        if environment.prefix is None:
            continue
        places.extend((environment.tree, f"{environment.prefix}/{name}") for name in ("bin", "lib", "lib64"))
        if (binary := interpreter(environment)) is not None:
            home = binary.rpartition("/")[0].rpartition("/")[0]
            places.extend((environment.tree, f"{home}/{name}") for name in ("bin", "lib"))
    starts: list[tuple[Tree, str, frozenset[str]]] = []
    for tree in dict.fromkeys([system, *(item.tree for item in environments)]):
        real = {folder for owner, place in places if owner is tree and (folder := tree.resolve(place))}
        kept: list[str] = []
        for folder in sorted(real, key=lambda path: path.split("/")):
            if not kept or not folder.startswith(f"{kept[-1]}/"):
                kept.append(folder)
        starts.extend((tree, folder, _SKIP | SITE_NAMES) for folder in kept)
        starts.extend((tree, item.folder, _SKIP) for item in environments if item.tree is tree)
    return starts


def _describe(tree: Tree, path: str, budget: _Budget) -> dict[str, Any] | None:
    head = tree.head(path, _ELF_HEAD_BYTES)
    if len(head) < _ELF_HEAD_BYTES or head[:4] != b"\x7fELF":
        return None
    (kind,) = struct.unpack_from(">H" if head[5] == 2 else "<H", head, 16)
    if kind not in (_EXECUTABLE, _SHARED):
        return None
    try:
        size_bytes = os.lstat(f"{tree.root}/{path}").st_size
    except OSError:
        return None
    sha256 = None
    if budget.files <= 0 or size_bytes > min(MAX_FILE_BYTES, budget.size_bytes):
        tree.findings.add("not_hashed", tree.show(path), f"{size_bytes} bytes are beyond what one inventory hashes")
    else:
        sha256 = tree.sha256(path)
        budget.files -= 1
        budget.size_bytes -= size_bytes
    is_shared = kind == _SHARED and _SHARED_NAME.fullmatch(path.rpartition("/")[2])
    return {
        "path": tree.show(path),
        "size_bytes": size_bytes,
        "sha256": sha256,
        "type": "shared_object" if is_shared else "executable",
    }


def _mounted_files(system: Tree) -> set[str]:
    """Paths that are mount points themselves, when `system` is the machine this runs on."""
    if system.root != "/":
        return set()
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:  # noqa: PTH123
            points = [line.split(" ")[4] for line in stream if line.count(" ") > 4]
    except OSError:
        return set()
    return {re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point).strip("/") for point in points}
