"""Versions of packages, which stand in three places of a bundle: pinned in the lock, read back in the receipts, and
listed in the SBOM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from suite.errors import VerificationFailed
from suite.manifest.lock import Lock
from suite.sbom.interface import PYTHON
from suite.sbom.read import parse_components

SBOM_NAME = "sbom.cdx.json"


def receipt_packages(receipt: Mapping[str, Any], *, where: str) -> dict[str, str]:
    """Package to version, as the engine's workers found them; empty where the receipt names none.

    Raises:
        VerificationFailed: a name or version is no text, or two ranks differ in one.
    """
    found: dict[str, str] = {}
    for name, version in _named(receipt):
        if not isinstance(version, str):
            raise VerificationFailed(f"the version of {name!a} is no text", where=where)
        if found.setdefault(name, version) != version:
            raise VerificationFailed(f"{name!a}: one rank has {found[name]!a}, another {version!a}", where=where)
    return found


def check_pins(lock: Lock, packages: Mapping[str, str], *, where: str) -> None:
    """Check that what the lock pins is what the receipt names; a local part (`+cpu`) that no pin has is let through.

    Raises:
        VerificationFailed: a package has another version.
    """
    for name, pinned in lock.runtime.packages.items():
        found = packages.get(canonicalize_name(name))
        if found is not None and pinned not in (found, found.partition("+")[0]):
            raise VerificationFailed(f"{name}: the lock pins {pinned}, the receipt names {found!a}", where=where)


def check_sbom(data: bytes, packages: Mapping[str, str]) -> tuple[str, list[str]]:
    """Check an SBOM against the candidate's receipt; returns one line on what holds, and what the SBOM lacks.

    Packages that the SBOM lacks are named, and no failure: it lists one environment, and an engine may lie in another.

    Raises:
        VerificationFailed: a package has another version in the SBOM than in the engine.
        InvalidInput: no SBOM.
    """
    listed: dict[str, set[str]] = {}
    for component in parse_components(data, where=SBOM_NAME):
        if component.kind == PYTHON and component.version is not None:
            listed.setdefault(canonicalize_name(component.name), set()).add(component.version)
    for name, version in packages.items():
        if name in listed and version not in listed[name]:
            theirs = ", ".join(sorted(listed[name]))
            raise VerificationFailed(f"{name}: the receipt names {version!a}, the SBOM {theirs!a}", where=SBOM_NAME)
    absent = sorted(packages.keys() - listed.keys())
    told = f"; not in the SBOM: {', '.join(absent)}" if absent else ""
    return (
        f"{len(packages) - len(absent)} of {len(packages)} packages of the receipt stand in the SBOM alike{told}",
        absent,
    )


def _named(receipt: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    ranks = receipt.get("ranks")
    for rank in ranks if isinstance(ranks, list) else ():
        packages = rank.get("packages") if isinstance(rank, dict) else None
        if isinstance(packages, dict):
            yield from ((canonicalize_name(name), version) for name, version in packages.items())
