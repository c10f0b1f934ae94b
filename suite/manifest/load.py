"""From a path to a `Manifest`: strict YAML, `extends`, unknown keys, validation, every fault with its line."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import ValidationError

from suite.manifest.explain import explain
from suite.manifest.keys import unknown_keys
from suite.manifest.merge import merge
from suite.manifest.problems import InvalidManifest, Place, Problem, shown
from suite.manifest.schema import SCHEMA_VERSION, Manifest
from suite.manifest.strict_yaml import Document, parse_file

MAX_LAYERS = 32
SUFFIXES = (".yaml", ".yml")


def load_manifest(path: Path) -> Manifest:
    """Load one manifest with everything it extends.

    Raises:
        InvalidManifest: (an `InvalidInput`, exit code 2) with every fault found, each with file and line.
    """
    return Loader().load(path)


class Loader:
    """Loads manifests, reading each shared file once."""

    def __init__(self) -> None:
        self._documents: dict[Path, Document] = {}
        self._roots: dict[Path, Path] = {}

    def load(self, path: Path) -> Manifest:
        """See `load_manifest`."""
        file = path.absolute()
        merged = self.merged(file)
        _check_version(merged)
        try:
            # Strict JSON mode: lists become tuples, and nothing else is coerced.
            manifest = Manifest.model_validate_json(json.dumps(merged.value))
        except ValidationError as error:
            raise InvalidManifest(explain(error, merged)) from error
        manifest._file = file
        manifest._root = self._root(file)
        if manifest.reference is not None:
            place = merged.places[("reference",)]
            manifest._reference_file = self._inside(place.file, manifest.reference, place, "reference")
            self._refuse_circle(file, manifest._reference_file, place)
        if manifest.arbiter is not None:
            place = merged.places[("arbiter",)]
            manifest._arbiter_file = self._inside(place.file, manifest.arbiter, place, "arbiter")
        return manifest

    def merged(self, path: Path) -> Document:
        """The document of `path` with everything it extends laid under it, keys checked, values not yet.

        Raises:
            InvalidManifest: a file cannot be parsed, a key is unknown, `extends` leads in a circle or out of the root.
        """
        layers = self._layers(path.absolute(), ())
        problems = [p for layer in layers for p in unknown_keys(layer.value, layer.places)]
        if problems:
            raise InvalidManifest(dict.fromkeys(problems))
        merged = merge(layers)
        merged.value.pop("extends", None)
        return merged

    def _layers(self, file: Path, chain: tuple[Path, ...]) -> list[Document]:
        """The documents to merge, weakest first."""
        document = self._document(file)
        resolved = file.resolve()
        place = document.places.get(("extends",), document.places[()])
        layers: list[Document] = []
        for name in _extends(document):
            target = self._inside(file, name, place, "extends")
            if target.resolve() == resolved or target.resolve() in chain:
                circle = " -> ".join(p.name for p in (*chain, resolved, target.resolve()))
                raise _refusal(place, "extends", f"leads in a circle: {circle}")
            layers += self._layers(target, (*chain, resolved))
            if len(layers) > MAX_LAYERS:
                raise _refusal(place, "extends", f"more than {MAX_LAYERS} files in all")
        return [*layers, document]

    def _refuse_circle(self, file: Path, reference: Path, place: Place) -> None:
        """Refuse references that lead back to a file already passed: nothing would be measured against anything."""
        chain = [file.resolve()]
        target: Path | None = reference
        while target is not None:
            chain.append(target.resolve())
            if chain[-1] in chain[:-1]:
                raise _refusal(place, "reference", f"leads in a circle: {' -> '.join(p.name for p in chain)}")
            target = self._reference_of(target)

    def _reference_of(self, file: Path) -> Path | None:
        """The file that `file` names as its reference; None also where it has faults, told when it is loaded itself."""
        try:
            merged = self.merged(file)
            name = merged.value.get("reference")
            if not isinstance(name, str):
                return None
            place = merged.places[("reference",)]
            return self._inside(place.file, name, place, "reference")
        except InvalidManifest:
            return None

    def _document(self, file: Path) -> Document:
        if file not in self._documents:
            self._documents[file] = parse_file(file)
        return self._documents[file]

    def _root(self, file: Path) -> Path:
        folder = file.parent
        if folder not in self._roots:
            self._roots[folder] = find_root(file)
        return self._roots[folder]

    def _inside(self, file: Path, name: str, place: Place, key: str) -> Path:
        """The file that `file` calls `name`, refused if it lies outside the root (also through a link)."""
        if PurePosixPath(name).is_absolute() or "\\" in name or name.startswith("~"):
            raise _refusal(place, key, f"{name!r} is not a path relative to this file")
        target = Path(*_normal(file.parent / name))
        root = self._root(file)
        if not target.resolve().is_relative_to(root.resolve()):
            raise _refusal(place, key, f"{name!r} leads out of {shown(root)}, the repository's root")
        if target.suffix not in SUFFIXES:
            raise _refusal(place, key, f"{name!r} is not a .yaml file")
        if not target.is_file():
            raise _refusal(place, key, f"no such file: {name}")
        return target


def find_root(file: Path) -> Path:
    """The repository that `file` belongs to.

    The nearest folder above it that holds `.git`, or both `manifests` and `workloads`; else the file's own folder.
    """
    for folder in file.absolute().parents:
        if (folder / ".git").exists() or ((folder / "manifests").is_dir() and (folder / "workloads").is_dir()):
            return folder
    return file.absolute().parent


def is_fragment(path: Path, top: Path) -> bool:
    """Whether `path` is a part that others extend: its own name, or a folder between it and `top`, begins with `_`."""
    try:
        parts: tuple[str, ...] = path.relative_to(top).parts
    except ValueError:
        parts = (path.name,)
    return any(part.startswith("_") for part in parts or (path.name,))


def dump_manifest(manifest: Manifest) -> str:
    """The manifest after `extends` as YAML: only what was said, no defaults. It loads as the same manifest."""
    value = manifest.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return dump_yaml(value)


def dump_for_others(manifest: Manifest) -> str:
    """As `dump_manifest`, but of a path into one machine only the last name stays: the text is published."""
    value = manifest.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for holder, key in (
        (value, "reference"),
        (value, "arbiter"),
        (value.get("runtime", {}), "python"),
        (value.get("model", {}), "path"),
    ):
        if str(holder.get(key, "")).startswith(("/", "~")):
            holder[key] = PurePosixPath(holder[key]).name
    return dump_yaml(value)


def dump_yaml(value: dict[str, Any]) -> str:
    """`value` as YAML that `parse_text` reads back unchanged."""
    text: str = yaml.dump(
        value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
    )
    return text


class _PlainDumper(yaml.SafeDumper):
    """A dumper without anchors: equal values are written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _extends(document: Document) -> list[str]:
    value = document.value.get("extends")
    if value is None:
        return []
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise _refusal(document.places[("extends",)], "extends", "must be a relative path, or a list of them")
    return names


def _check_version(document: Document) -> None:
    """Speak of a newer version before complaining about the keys it may have brought."""
    version = document.value.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise _refusal(
            document.places[("schema_version",)],
            "schema_version",
            f"{version} is newer than {SCHEMA_VERSION}, the newest this version of suite reads; update suite",
        )


def _normal(path: Path) -> list[str]:
    """The parts of `path` with `..` taken back, so that a file has one name and messages are readable."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part not in ("..", "."):
            parts.append(part)
    return parts


def _refusal(place: Place, key: str, message: str) -> InvalidManifest:
    return InvalidManifest([Problem(place=place, key=key, message=message)])
