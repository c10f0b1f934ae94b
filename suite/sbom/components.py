"""All components of an inventory: every source asked, what was found twice merged, in one fixed order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from suite.sbom.dpkg import debian_packages, operating_system
from suite.sbom.interface import KINDS, Component, Source
from suite.sbom.python import python_distributions
from suite.sbom.schema import Inventory
from suite.sbom.unowned import unowned_files

SOURCES: tuple[Source, ...] = (operating_system, debian_packages, python_distributions, unowned_files)


def components_of(inventory: Inventory) -> tuple[Component, ...]:
    """Sorted components; two with the same package URL and content are one with both places."""
    return merge(component for source in SOURCES for component in source(inventory))


def merge(components: Iterable[Component]) -> tuple[Component, ...]:
    """Merge components that agree in all but places, properties and licence text.

    A component without a content hash is merged only with one that has none either.
    """
    merged: dict[tuple[str, ...], Component] = {}
    for component in components:
        key = tuple(
            value or ""
            for value in (
                component.kind,
                component.name,
                component.version,
                component.architecture,
                component.purl,
                component.content_sha256,
            )
        )
        known = merged.get(key)
        if known is not None:
            component = replace(
                known,
                licence=min(filter(None, (known.licence, component.licence)), default=None),
                places=tuple(sorted({*known.places, *component.places})),
                properties=tuple(sorted({*known.properties, *component.properties})),
            )
        merged[key] = component
    rank = {kind: number for number, kind in enumerate(KINDS)}
    return tuple(merged[key] for key in sorted(merged, key=lambda key: (rank[key[0]], key)))


def count_by_kind(components: Iterable[Component]) -> dict[str, int]:
    """How many components of each kind, in the order of `KINDS`; kinds without any are left out."""
    counts = dict.fromkeys(KINDS, 0)
    for component in components:
        counts[component.kind] += 1
    return {kind: count for kind, count in counts.items() if count}


def references(components: Iterable[Component]) -> list[str]:
    """One unique, stable reference per component, in their order: its package URL, or kind, name and version."""
    used: set[str] = set()
    result: list[str] = []
    for component in components:
        base = component.purl or f"{component.kind}:{component.name}@{component.version or ''}"
        if base in used and component.content_sha256:
            base = f"{base}#{component.content_sha256[:12]}"
        reference, number = base, 1
        while reference in used:
            number += 1
            reference = f"{base}#{number}"
        used.add(reference)
        result.append(reference)
    return result
