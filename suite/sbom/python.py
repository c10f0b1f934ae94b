"""Python distributions as components, except those that a Debian package brings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from suite.sbom.interface import PYTHON, Component
from suite.sbom.purl import make_purl
from suite.sbom.schema import Distribution, Inventory


def python_distributions(inventory: Inventory) -> Iterator[Component]:
    """One component per metadata folder; names as the packaging rules compare them (`PyYAML` is `pyyaml`)."""
    packages = {package.name for package in inventory.dpkg}
    for distribution in inventory.python:
        if distribution.dpkg_owner is not None and distribution.dpkg_owner in packages:
            continue
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        yield Component(
            kind=PYTHON,
            name=name,
            version=distribution.version,
            purl=make_purl("pypi", name, distribution.version),
            content_sha256=distribution.content_sha256,
            licence=distribution.licence,
            places=tuple(distribution.found_in),
            properties=tuple(sorted(_facts(distribution))),
        )


def _facts(distribution: Distribution) -> Iterator[tuple[str, str]]:
    if distribution.record_sha256:
        yield "record_sha256", distribution.record_sha256
    if distribution.installer:
        yield "installer", distribution.installer
    if distribution.requested:
        yield "requested", "true"
    if distribution.editable:
        yield "editable", "true"
    if distribution.direct_url is not None:
        yield "direct_url", distribution.direct_url.url
        if distribution.direct_url.commit:
            yield "direct_url_commit", distribution.direct_url.commit
        if distribution.direct_url.sha256:
            yield "direct_url_sha256", distribution.direct_url.sha256
