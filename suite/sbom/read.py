"""Reads components back from a bundle, a CycloneDX or SPDX file (foreign ones too), or an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.sbom.components import components_of, merge
from suite.sbom.interface import DPKG, FILE_KINDS, KINDS, OPERATING_SYSTEM, OTHER, PYTHON, SHARED_OBJECT, Component
from suite.sbom.schema import load_inventory

BUNDLE_NAME = "sbom.cdx.json"
MAX_BYTES = 256 << 20

_KIND_OF_PURL = {"deb": DPKG, "pypi": PYTHON}
_KIND_OF_TYPE = {"operating-system": OPERATING_SYSTEM, "file": SHARED_OBJECT}


def read_components(path: Path) -> tuple[Component, ...]:
    """The components of a bundle folder (its `sbom.cdx.json`) or of one file, sorted and merged.

    Raises:
        InvalidInput: absent, larger than 256 MiB, not strict JSON, or none of the known formats.
    """
    file = path / BUNDLE_NAME if path.is_dir() else path
    return parse_components(read_bounded(file), where=str(file))


def read_bounded(path: Path) -> bytes:
    """The bytes of one file.

    Raises:
        InvalidInput: unreadable, or larger than 256 MiB.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(
            f"cannot be read: {error.strerror}", where=str(path), hint="name a bundle folder or an SBOM file"
        ) from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"larger than {MAX_BYTES:,} bytes", where=str(path))
    return data


def parse_components(data: bytes, *, where: str) -> tuple[Component, ...]:
    """The same from bytes.

    Raises:
        InvalidInput: as `read_components`.
    """
    value = strict_json(data, where=where)
    if isinstance(value, dict):
        if value.get("bomFormat") == "CycloneDX":
            return merge(_from_cyclonedx(item) for item in _entries(value, "components", where))
        if str(value.get("spdxVersion", "")).startswith("SPDX-2."):
            return merge(_from_spdx(item) for item in _entries(value, "packages", where))
        if "dpkg" in value and "python" in value:
            return components_of(load_inventory(data, where=where))
    raise InvalidInput(
        "neither CycloneDX JSON, nor SPDX 2 JSON, nor an inventory",
        where=where,
        hint="write one with `suite sbom collect`",
    )


def _entries(value: dict[str, Any], key: str, where: str) -> Iterator[dict[str, Any]]:
    entries = value.get(key, [])
    if not isinstance(entries, list):
        raise InvalidInput(f"`{key}` is not a list", where=where)
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            raise InvalidInput(f"{key}[{number}] has no name", where=where)
        yield entry


def _from_cyclonedx(entry: dict[str, Any]) -> Component:
    facts = [
        (fact["name"].removeprefix("suite:"), fact["value"])
        for fact in _dicts(entry.get("properties"))
        if _text(fact.get("name")) and _text(fact.get("value")) and fact["name"].startswith("suite:")
    ]
    evidence = entry.get("evidence")
    occurrences = _dicts(evidence.get("occurrences")) if isinstance(evidence, dict) else []
    hashes = [item.get("content") for item in _dicts(entry.get("hashes")) if item.get("alg") == "SHA-256"]
    licences = []
    for choice in _dicts(entry.get("licenses")):
        inner = choice.get("license")
        named = inner if isinstance(inner, dict) else {}
        licences.append(choice.get("expression") or named.get("id") or named.get("name"))
    return _component(
        entry["name"],
        _text(entry.get("version")),
        purl=_text(entry.get("purl")),
        facts=facts,
        sha256=next((_text(item) for item in hashes), None),
        licence=next((_text(item) for item in licences), None),
        places=[place for item in occurrences if (place := _text(item.get("location")))],
        fallback=_KIND_OF_TYPE.get(str(entry.get("type")), OTHER),
    )


def _from_spdx(entry: dict[str, Any]) -> Component:
    lines = (_text(entry.get("comment")) or "").split("\n")
    facts = []
    for line in lines:
        name, separator, value = line.partition("=")
        if separator and name.startswith("suite:"):
            facts.append((name.removeprefix("suite:"), value))
    references = _dicts(entry.get("externalRefs"))
    purls = [item.get("referenceLocator") for item in references if item.get("referenceType") == "purl"]
    sums = [item.get("checksumValue") for item in _dicts(entry.get("checksums")) if item.get("algorithm") == "SHA256"]
    declared = _text(entry.get("licenseDeclared"))
    remark = _text(entry.get("licenseComments")) or ""
    if declared in (None, "NOASSERTION", "NONE"):
        declared = remark.removeprefix("declared as: ") if remark.startswith("declared as: ") else None
    places = (_text(entry.get("sourceInfo")) or "").split("\n")
    return _component(
        entry["name"],
        _text(entry.get("versionInfo")),
        purl=next((_text(item) for item in purls), None),
        facts=facts,
        sha256=next((_text(item) for item in sums), None),
        licence=declared,
        places=[place.removeprefix("found at ") for place in places if place.startswith("found at ")],
        fallback=OPERATING_SYSTEM if str(entry.get("primaryPackagePurpose")).startswith("OPERATING") else OTHER,
    )


def _component(
    name: str,
    version: str | None,
    *,
    purl: str | None,
    facts: list[tuple[str, str]],
    sha256: str | None,
    licence: str | None,
    places: list[str],
    fallback: str,
) -> Component:
    known = dict(facts)
    purl_type = (purl or "").removeprefix("pkg:").partition("/")[0]
    kind = known.get("kind", "")
    if kind not in KINDS:
        kind = _KIND_OF_PURL.get(purl_type, fallback)
    own = {"kind", "content_sha256", "architecture"}
    return Component(
        kind=kind,
        name=name,
        version=version,
        architecture=known.get("architecture"),
        purl=purl,
        content_sha256=sha256 if kind in FILE_KINDS else known.get("content_sha256"),
        licence=licence,
        places=tuple(sorted(places)),
        properties=tuple(sorted(fact for fact in facts if fact[0] not in own)),
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
