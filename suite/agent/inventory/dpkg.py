"""Debian packages: dpkg's status file, the `status.d` of distroless images, and the lists of the files they own."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from suite.agent.inventory.headers import Fields, blocks, first
from suite.agent.inventory.tree import Tree, clean

STATUS = "var/lib/dpkg/status"
STATUS_FOLDER = "var/lib/dpkg/status.d"
INFO_FOLDER = "var/lib/dpkg/info"
MAX_STATUS_BYTES = 256 << 20
MAX_LIST_BYTES = 64 << 20

# The third word of `Status:` when the package's files are not there.
_ABSENT = frozenset({"not-installed", "config-files"})
_SOURCE = re.compile(r"(\S+)(?:\s+\((.+)\))?", re.DOTALL)


def collect(tree: Tree) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All installed packages, and which canonical path belongs to which package."""
    packages: dict[tuple[str, str, str], dict[str, Any]] = {}
    owners: dict[str, str] = {}
    data = tree.read(STATUS, max_bytes=MAX_STATUS_BYTES)
    if data is not None:
        _add(tree, packages, data, STATUS)
    for entry in tree.entries(STATUS_FOLDER):
        path = f"{STATUS_FOLDER}/{entry.name}"
        if entry.name.endswith(".md5sums") or entry.is_dir(follow_symlinks=False):
            continue
        data = tree.read(path, max_bytes=MAX_LIST_BYTES)
        if data is not None:
            _add(tree, packages, data, path)
    info = {entry.name for entry in tree.entries(INFO_FOLDER)}
    for package in packages.values():
        _read_files(tree, package, info, owners)
    _read_diversions(tree, owners)
    return [packages[key] for key in sorted(packages)], owners


def operating_system(tree: Tree) -> dict[str, str | None] | None:
    """`ID`, `VERSION_ID` and `PRETTY_NAME` of os-release; None if there is none."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        data = tree.read(path, max_bytes=1 << 16)
        if data is None:
            continue
        values: dict[str, str] = {}
        for line in data.decode("utf-8", "backslashreplace").split("\n"):
            name, separator, value = line.partition("=")
            if separator:
                values[name.strip()] = clean(value.strip().strip("\"'"))
        return {
            "id": values.get("ID") or None,
            "version_id": values.get("VERSION_ID") or None,
            "pretty_name": values.get("PRETTY_NAME") or None,
        }
    return None


def _add(tree: Tree, packages: dict[tuple[str, str, str], dict[str, Any]], data: bytes, path: str) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        tree.findings.add("not_utf8", path, "bytes that are not UTF-8 are written as escapes")
        text = data.decode("utf-8", "backslashreplace")
    for fields in blocks(text):
        package = _package(tree, fields, path)
        if package is None:
            continue
        key = (package["name"], package["architecture"] or "", package["version"] or "")
        known = packages.setdefault(key, package)
        if known is package:
            continue
        tree.findings.add("package_twice", path, f"{package['name']} stands twice")
        known["found_in"] = sorted({*known["found_in"], path})


def _package(tree: Tree, fields: Fields, path: str) -> dict[str, Any] | None:
    name = first(fields, "package")
    if name is None:
        tree.findings.add("no_name", path, "a block without Package")
        return None
    status = (first(fields, "status") or "install ok installed").split()
    state = status[-1]
    if state in _ABSENT:
        return None
    version = first(fields, "version")
    if version is None:
        tree.findings.add("no_version", path, f"{name} has no Version")
    if state != "installed":
        tree.findings.add("half_installed", path, f"{name} is in the state {state}")
    source = _SOURCE.fullmatch(first(fields, "source") or name)
    return {
        "name": clean(name),
        "version": clean(version) if version else None,
        "architecture": clean(first(fields, "architecture") or "") or None,
        "source": clean(source.group(1) if source else name),
        "source_version": clean((source and source.group(2)) or version or "") or None,
        "state": clean(state),
        "md5sums_sha256": None,
        "found_in": [path],
    }


def _read_files(tree: Tree, package: dict[str, Any], info: set[str], owners: dict[str, str]) -> None:
    name, architecture = package["name"], package["architecture"]
    stems = [f"{name}:{architecture}", name]
    for path in package["found_in"]:
        if path != STATUS:
            data = tree.read(f"{path}.md5sums", max_bytes=MAX_LIST_BYTES)
            if data is not None:
                package["md5sums_sha256"] = hashlib.sha256(data).hexdigest()
                _own(tree, owners, name, [line.partition("  ")[2] for line in _lines(data)])
            return
    sums = next((f"{stem}.md5sums" for stem in stems if f"{stem}.md5sums" in info), None)
    if sums is not None:
        package["md5sums_sha256"] = tree.sha256(f"{INFO_FOLDER}/{sums}")
    listed = next((f"{stem}.list" for stem in stems if f"{stem}.list" in info), None)
    if listed is None:
        tree.findings.add("no_file_list", INFO_FOLDER, f"{name} has no list of its files")
        return
    data = tree.read(f"{INFO_FOLDER}/{listed}", max_bytes=MAX_LIST_BYTES)
    _own(tree, owners, name, _lines(data or b""))


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\n")


def _own(tree: Tree, owners: dict[str, str], name: str, paths: list[str]) -> None:
    for path in paths:
        if len(path) > 1 and (real := tree.canonical(path)):
            owners[real] = name


def _read_diversions(tree: Tree, owners: dict[str, str]) -> None:
    # Three lines each: the path, where its file was moved to, the package that moved it (":" for the administrator).
    data = tree.read("var/lib/dpkg/diversions", max_bytes=MAX_LIST_BYTES)
    lines = _lines(data or b"")
    for start in range(0, len(lines) - 2, 3):
        source, target = tree.canonical(lines[start]), tree.canonical(lines[start + 1])
        if source in owners and target:
            owners.setdefault(target, owners[source])
