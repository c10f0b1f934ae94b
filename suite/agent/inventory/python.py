"""Python distributions: every `*.dist-info` and `*.egg-info` of an environment, with the files that each one owns."""

from __future__ import annotations

import csv
import hashlib
import json
import posixpath
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from suite.agent.inventory.environment import Environment
from suite.agent.inventory.headers import Fields, blocks, first
from suite.agent.inventory.tree import Tree, clean

MAX_METADATA_BYTES = 1 << 20
MAX_RECORD_BYTES = 64 << 20
MAX_LICENCE_CHARACTERS = 120

_DIST_INFO = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.dist-info")
_EGG_INFO = re.compile(r"(?P<name>.+?)(?:-(?P<version>[^-]+)(?:-py[\d.]+.*)?)?\.egg-info")
# Rows that tell how a distribution was installed, not what it holds.
_BOOKKEEPING = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "uv_build.json"})

Recorded = dict[int, set[str]]


def collect(
    environments: list[Environment], owners: dict[str, str], *, system: Tree
) -> tuple[list[dict[str, Any]], Recorded]:
    """All distributions, and per tree (by `id`) the paths that some RECORD owns.

    Args:
        environments: The folders to read.
        owners: Canonical path -> Debian package, for paths in `system`.
        system: The tree that dpkg was read from.
    """
    distributions: list[dict[str, Any]] = []
    recorded: Recorded = {}
    for environment in environments:
        tree, folder = environment.tree, environment.folder
        files = recorded.setdefault(id(tree), set())
        for entry in tree.entries(folder):
            if not entry.name.endswith((".dist-info", ".egg-info")):
                continue
            place = f"{folder}/{entry.name}"
            distribution = _read(tree, folder, place, files)
            if tree is system:
                metadata = distribution.pop("_metadata")
                distribution["dpkg_owner"] = owners.get(metadata) or owners.get(tree.canonical(metadata) or "")
            else:
                del distribution["_metadata"]
            distributions.append(distribution)
    distributions.sort(key=lambda item: (item["name"].lower(), item["version"] or "", item["found_in"]))
    return distributions, recorded


def _read(tree: Tree, folder: str, place: str, files: set[str]) -> dict[str, Any]:
    base = place.rpartition("/")[2]
    is_folder = tree.is_folder(place)
    metadata = place
    if is_folder:
        metadata = f"{place}/{'METADATA' if base.endswith('.dist-info') else 'PKG-INFO'}"
    fields = _metadata(tree, metadata)
    match = (_DIST_INFO if base.endswith(".dist-info") else _EGG_INFO).fullmatch(base)
    name = first(fields, "name")
    version = first(fields, "version")
    if name is None:
        name = match["name"] if match else base.rpartition(".")[0]
        tree.findings.add("no_name", tree.show(metadata), "the name was taken from the folder's name")
    if version is None:
        version = match["version"] if match else None
        tree.findings.add("no_version", tree.show(metadata), "the version was taken from the folder's name")
    licence, licence_kind = _licence(fields)
    distribution: dict[str, Any] = {
        "name": clean(name),
        "version": clean(version) if version else None,
        "licence": licence,
        "licence_kind": licence_kind,
        "installer": None,
        "requested": False,
        "editable": False,
        "direct_url": None,
        "record_sha256": None,
        "content_sha256": None,
        "dpkg_owner": None,
        "found_in": [tree.show(place)],
        "_metadata": metadata,
    }
    if not is_folder:
        files.add(place)
        return distribution
    names = {entry.name for entry in tree.entries(place)}
    if "INSTALLER" in names:
        distribution["installer"] = clean(tree.head(f"{place}/INSTALLER", 64).decode("utf-8", "replace")) or None
    distribution["requested"] = "REQUESTED" in names
    if "direct_url.json" in names:
        distribution["direct_url"], distribution["editable"] = _direct_url(tree, f"{place}/direct_url.json")
    if "RECORD" in names:
        _read_record(tree, folder, base, distribution, files)
    elif "installed-files.txt" in names:
        data = tree.read(f"{place}/installed-files.txt", max_bytes=MAX_RECORD_BYTES) or b""
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            _own(tree, files, place, line.rstrip("\r"))
    return distribution


def _metadata(tree: Tree, path: str) -> Fields:
    data = tree.read(path, max_bytes=MAX_METADATA_BYTES, cut_is_finding=False)
    if data is None:
        tree.findings.add("no_metadata", tree.show(path), "METADATA or PKG-INFO is missing or unreadable")
        return {}
    # Only the head is of use: the description that follows the first blank line can be long.
    head = re.split(rb"\r?\n[ \t]*\r?\n", data, maxsplit=1)[0]
    try:
        text = head.decode()
    except UnicodeDecodeError:
        tree.findings.add("not_utf8", tree.show(path), "bytes that are not UTF-8 are written as escapes")
        text = head.decode("utf-8", "backslashreplace")
    return next(blocks(text), {})


def _licence(fields: Fields) -> tuple[str | None, str | None]:
    expression = first(fields, "license-expression")
    if expression:
        return clean(expression), "expression"
    text = first(fields, "license")
    if text and "\n" not in text and len(text) <= MAX_LICENCE_CHARACTERS and text.upper() != "UNKNOWN":
        return clean(text), "text"
    named = [
        value.rpartition("::")[2].strip() for value in fields.get("classifier", ()) if value.startswith("License ::")
    ]
    specific = sorted({value for value in named if value != "OSI Approved"})
    return (clean("; ".join(specific)), "classifier") if specific else (None, None)


def _direct_url(tree: Tree, path: str) -> tuple[dict[str, Any] | None, bool]:
    """The origin without what is private in it: credentials, queries, and where on a disk it lay."""
    data = tree.read(path, max_bytes=MAX_METADATA_BYTES)
    try:
        value = json.loads(data or b"")
        parts = urlsplit(value["url"])
        if parts.scheme in ("", "file"):
            url = "file:" + posixpath.basename(parts.path.rstrip("/"))
        else:
            url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        result: dict[str, Any] = {"url": clean(url)}
        version_control = value.get("vcs_info") or {}
        if version_control:
            result["commit"] = clean(str(version_control.get("commit_id", "")))
        archive = value.get("archive_info") or {}
        sha256 = (archive.get("hashes") or {}).get("sha256")
        if sha256 is None and str(archive.get("hash", "")).startswith("sha256="):
            sha256 = archive["hash"].partition("=")[2]
        if sha256 is not None:
            result["sha256"] = clean(str(sha256))
        return result, bool((value.get("dir_info") or {}).get("editable", False))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        tree.findings.add("bad_direct_url", tree.show(path), "not a direct_url.json as the packaging rules describe it")
        return None, False


def _read_record(tree: Tree, folder: str, base: str, distribution: dict[str, Any], files: set[str]) -> None:
    path = f"{folder}/{base}/RECORD"
    data = tree.read(path, max_bytes=MAX_RECORD_BYTES)
    if data is None:
        return
    distribution["record_sha256"] = hashlib.sha256(data).hexdigest()
    rows: dict[str, str] = {}
    num_twice = num_damaged = 0
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        line = line.rstrip("\r")
        if not line:
            continue
        name, rest, whole = _row(line)
        num_damaged += not whole
        if not name:
            continue
        num_twice += name in rows
        rows.setdefault(name, rest)
    if num_twice:
        tree.findings.add("record_row_twice", tree.show(path), f"{num_twice} rows name a file already listed")
    if num_damaged:
        tree.findings.add("record_row_damaged", tree.show(path), f"{num_damaged} rows are not path, hash, size")
    distribution["content_sha256"] = _content_hash(rows, base)
    for name in rows:
        _own(tree, files, folder, name)


def _row(line: str) -> tuple[str, str, bool]:
    """Path, `hash,size`, and whether the row has its three parts."""
    if '"' in line:
        try:
            cells = next(csv.reader([line]))
        except (csv.Error, StopIteration):
            return "", "", False
    else:
        cells = line.split(",")
    return (cells[0], ",".join(cells[1:3]), True) if len(cells) == 3 else (cells[0] if cells else "", "", False)


def _content_hash(rows: dict[str, str], base: str) -> str:
    """SHA-256 over the rows that follow from the distribution's content, sorted.

    Left out are compiled caches, scripts outside the environment's folder (their first line names the interpreter)
    and the installer's own notes, so that the same wheel has the same hash in every environment.
    """
    kept = []
    for name, rest in rows.items():
        if name.endswith(".pyc") or name.startswith(("../", "/")):
            continue
        parent, _, leaf = name.rpartition("/")
        if parent == base and leaf in _BOOKKEEPING:
            continue
        kept.append(f"{name},{rest}\n")
    return hashlib.sha256("".join(sorted(kept)).encode("utf-8", "surrogateescape")).hexdigest()


def _own(tree: Tree, files: set[str], folder: str, name: str) -> None:
    if not name.startswith((".", "/")) and "/." not in name:
        files.add(f"{folder}/{name}")
    elif name:
        joined = posixpath.normpath(name if name.startswith("/") else f"/{folder}/{name}")
        if real := tree.canonical(joined):
            files.add(real)
