"""Debian packages as components, together with the Python distributions that they bring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from suite.sbom.interface import DPKG, OPERATING_SYSTEM, Component
from suite.sbom.purl import make_purl
from suite.sbom.schema import Distribution, Inventory


def operating_system(inventory: Inventory) -> Iterator[Component]:
    """The distribution that os-release names, if it names one."""
    system = inventory.operating_system
    if system is not None and system.id:
        yield Component(
            kind=OPERATING_SYSTEM,
            name=system.id,
            version=system.version_id,
            properties=(("pretty_name", system.pretty_name),) if system.pretty_name else (),
        )


def debian_packages(inventory: Inventory) -> Iterator[Component]:
    """One component per package and architecture.

    A distribution whose metadata a package owns (Debian's `python3-yaml` holds PyYAML) is the same software found
    twice: it becomes a place and a property of the package, not a component of its own.
    """
    brought: dict[str, list[Distribution]] = defaultdict(list)
    for distribution in inventory.python:
        if distribution.dpkg_owner is not None:
            brought[distribution.dpkg_owner].append(distribution)
    system = inventory.operating_system
    namespace = (system.id if system else None) or "debian"
    distro = f"{system.id}-{system.version_id}" if system and system.id and system.version_id else None
    for package in inventory.dpkg:
        facts = {("source", f"{package.source} {package.source_version or ''}".strip())}
        if package.state != "installed":
            facts.add(("state", package.state))
        places = set(package.found_in)
        for distribution in brought[package.name]:
            facts.add(("python_distribution", f"{distribution.name} {distribution.version or ''}".strip()))
            places.update(distribution.found_in)
        yield Component(
            kind=DPKG,
            name=package.name,
            version=package.version,
            architecture=package.architecture,
            purl=make_purl(
                "deb",
                package.name,
                package.version,
                namespace=namespace,
                qualifiers={"arch": package.architecture, "distro": distro},
            ),
            content_sha256=package.md5sums_sha256,
            places=tuple(sorted(places)),
            properties=tuple(sorted(facts)),
        )
