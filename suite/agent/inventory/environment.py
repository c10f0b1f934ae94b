"""Python environments: the `site-packages` folders to read, given by the caller or found in the usual places."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from suite.agent.inventory.tree import Tree

# Home folders are left out: what lies there belongs to a person, not to the stack, unless the caller names it.
SYSTEM_FOLDERS = ("usr/lib", "usr/lib64", "usr/local")
OTHER_FOLDERS = ("opt", "app", "srv", "venv", ".venv", "workspace")
SITE_NAMES = frozenset({"site-packages", "dist-packages"})
MAX_DEPTH = 6
MAX_FOLDERS = 50_000

_PYTHON = re.compile(r"(?:python|pypy)3?(?:\.\d+)?t?")
_SKIP = frozenset({"node_modules", "__pycache__", ".git", "share", "doc", "include"})


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One folder that holds distributions.

    Attributes:
        tree: What it is read through.
        folder: The folder, canonical in `tree`.
        prefix: The environment's prefix (`…/lib/python3.12/site-packages` without these three parts); None if the
            folder is not laid out so, or if the prefix is the system's own.
    """

    tree: Tree
    folder: str
    prefix: str | None


def given(tree: Tree, site_packages: list[Path]) -> list[Environment]:
    """The environments of folders that the caller names; those outside the system's folders are shown as `{prefix}`."""
    result: list[Environment] = []
    elsewhere: Tree | None = None
    names: dict[str, str] = {}
    for path in site_packages:
        if not path.is_dir():
            tree.findings.add("no_folder", path.name, "the given site-packages folder does not exist")
            continue
        home, folder = tree, tree.inside(path)
        if folder is None:
            elsewhere = elsewhere or Tree(Path("/"), tree.findings)
            home, folder = elsewhere, elsewhere.inside(path) or ""
        prefix = _prefix(folder)
        if not (home is tree and folder.startswith(("usr/", "opt/"))):
            shown = folder if prefix is None else prefix
            count = len(names)
            home.alias(shown, names.setdefault(shown, "{prefix}" if not count else f"{{prefix-{count + 1}}}"))
        if all(known.folder != folder or known.tree is not home for known in result):
            result.append(Environment(tree=home, folder=folder, prefix=_own_prefix(prefix)))
    return result


def find(tree: Tree) -> list[Environment]:
    """Every folder named site-packages or dist-packages in the usual places, a few levels deep."""
    found: set[str] = set()
    num_folders = 0
    waiting = [(start, 0) for start in (*SYSTEM_FOLDERS, *OTHER_FOLDERS)]
    seen: set[str] = set()
    while waiting:
        start, depth = waiting.pop()
        folder = tree.resolve(start)
        if folder is None or folder in seen or not tree.is_folder(folder):
            continue
        seen.add(folder)
        num_folders += 1
        if num_folders > MAX_FOLDERS:
            tree.findings.add("walk_cut", "", f"more than {MAX_FOLDERS} folders while looking for Python environments")
            break
        system = folder in ("usr/lib", "usr/lib64")
        for entry in tree.entries(folder):
            if not entry.is_dir(follow_symlinks=False) or entry.name in _SKIP:
                continue
            path = f"{folder}/{entry.name}"
            if entry.name in SITE_NAMES:
                found.add(path)
            elif depth < MAX_DEPTH and (not system or _PYTHON.fullmatch(entry.name)):
                waiting.append((path, depth + 1))
    return [Environment(tree=tree, folder=folder, prefix=_own_prefix(_prefix(folder))) for folder in sorted(found)]


def _prefix(folder: str) -> str | None:
    parts = folder.split("/")
    if len(parts) >= 3 and parts[-1] in SITE_NAMES and _PYTHON.fullmatch(parts[-2]) and parts[-3] in ("lib", "lib64"):
        return "/".join(parts[:-3])
    return None


def _own_prefix(prefix: str | None) -> str | None:
    return None if prefix in (None, "", "usr", "usr/local") else prefix


def interpreter(environment: Environment) -> str | None:
    """The canonical path of the binary that an environment's `bin/python3` leads to, shown as `{interpreter}/…`."""
    if environment.prefix is None:
        return None
    tree = environment.tree
    for name in ("python3", "python"):
        real = tree.resolve(f"{environment.prefix}/bin/{name}")
        if real is None or not os.path.isfile(f"{tree.root}/{real}"):  # noqa: PTH113 (text paths throughout)
            continue
        folder = real.rpartition("/")[0].rpartition("/")[0]
        if folder != environment.prefix and not real.startswith(("usr/", "opt/")):
            tree.alias(folder, "{interpreter}")
        return real
    return None
